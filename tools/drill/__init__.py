# SPDX-License-Identifier: BSD-3-Clause
"""`outlast drill`: which runs and trials there are, and making them. README.md says which module does what."""
