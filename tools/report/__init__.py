# SPDX-License-Identifier: BSD-3-Clause
"""What a drill's folder says: tables, claims, pictures. README.md says which module does what."""
