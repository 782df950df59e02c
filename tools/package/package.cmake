# SPDX-License-Identifier: BSD-3-Clause
# package.cmake -- what packages hold: `cpack -G DEB` and `cpack -G RPM` in a build folder (README.md)

# Manual pages of the calls, and of the commands; completions. Not where a program that was just built cannot be run.
find_program(PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(PYTHON3 python3)
set(ol_pages ${PROJECT_BINARY_DIR}/pages)
set(ol_make ${PROJECT_SOURCE_DIR}/tools/package/make.py)
add_custom_target(outlast-pages ALL)

# ol_pages_make(name DEPENDS files... COMMAND words...) -- make.py anew when one of these changes
function(ol_pages_make name)
	cmake_parse_arguments(P "" "" "DEPENDS;COMMAND" ${ARGN})
	set(stamp ${ol_pages}/${name}.stamp)
	add_custom_command(OUTPUT ${stamp} COMMAND ${PYTHON3} -B ${ol_make} ${P_COMMAND}
		COMMAND ${CMAKE_COMMAND} -E touch ${stamp} DEPENDS ${ol_make} ${P_DEPENDS} COMMENT "Making pages: ${name}" VERBATIM)
	add_custom_target(outlast-pages-${name} DEPENDS ${stamp})
	add_dependencies(outlast-pages outlast-pages-${name})
endfunction()

if(PYTHON3)
	ol_pages_make(calls DEPENDS ${ol_headers} COMMAND calls ${ol_pages} ${PROJECT_VERSION} ${ol_headers})
	install(DIRECTORY ${ol_pages}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT development OPTIONAL)
endif()
if(PYTHON3 AND OUTLAST_TOOLS AND NOT CMAKE_CROSSCOMPILING AND NOT OL_SANITIZE AND NOT OL_FUZZ AND NOT OL_COVERAGE)
	set(page ${PROJECT_SOURCE_DIR}/tools/outlast/outlast.1)
	ol_pages_make(program DEPENDS outlast-bin ${page} COMMAND program ${ol_pages} $<TARGET_FILE:outlast-bin> ${page})
	set(ol_zsh ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
	if(OUTLAST_PYTHON_DIR MATCHES dist-packages AND CMAKE_INSTALL_PREFIX STREQUAL /usr) # so does Debian
		set(ol_zsh ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
	endif()
	install(DIRECTORY ${ol_pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tools OPTIONAL)
	install(FILES ${ol_pages}/completion/outlast DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
		COMPONENT tools OPTIONAL)
	install(FILES ${ol_pages}/completion/_outlast DESTINATION ${ol_zsh} COMPONENT tools OPTIONAL)
	install(FILES ${ol_pages}/completion/outlast.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
		COMPONENT tools OPTIONAL)
endif()

# The maintainer is who makes the packages, as Debian's tools know them.
set(name "$ENV{DEBFULLNAME}")
set(mail "$ENV{DEBEMAIL}")
if(NOT name)
	set(name "Outlast packages")
endif()
if(NOT mail)
	set(mail root@localhost)
endif()
set(OUTLAST_MAINTAINER "${name} <${mail}>" CACHE STRING "of packages: Name <mail>")

set(CPACK_PACKAGE_NAME outlast)
set(CPACK_PACKAGE_VENDOR Outlast)
set(CPACK_PACKAGE_CONTACT ${OUTLAST_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
	WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/stage.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/stage.cmake)
set(CPACK_OUTLAST_SOURCE_DIR ${PROJECT_SOURCE_DIR})
set(CPACK_OUTLAST_STRIP ${CMAKE_STRIP})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE BSD-3-Clause)
set(CPACK_RPM_PACKAGE_AUTOREQ ON)
set(CPACK_RPM_PACKAGE_RELOCATABLE OFF)
# Folders of other packages.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION)
foreach(dir ${CMAKE_INSTALL_LIBDIR} ${CMAKE_INSTALL_LIBDIR}/cmake ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_INCLUDEDIR}
	${CMAKE_INSTALL_MANDIR} ${CMAKE_INSTALL_MANDIR}/man1 ${CMAKE_INSTALL_MANDIR}/man3 ${CMAKE_INSTALL_DATADIR}/licenses
	${CMAKE_INSTALL_DATADIR}/bash-completion ${CMAKE_INSTALL_DATADIR}/bash-completion/completions ${CMAKE_INSTALL_DATADIR}/zsh
	${CMAKE_INSTALL_DATADIR}/zsh/site-functions ${CMAKE_INSTALL_DATADIR}/fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
	lib lib/systemd lib/systemd/system lib/sysusers.d lib/tmpfiles.d
	${OUTLAST_PYTHON_DIR})
	list(APPEND CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION ${CMAKE_INSTALL_PREFIX}/${dir})
endforeach()
cmake_path(GET OUTLAST_PYTHON_DIR PARENT_PATH dir)
list(APPEND CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION ${CMAKE_INSTALL_PREFIX}/${dir})

# ol_package(part DEB name RPM name SECTION section SUMMARY line TEXT text NEEDS part DEPENDS list RECOMMENDS list) -- a
# part of the installation as a package of both kinds. DEPENDS and RECOMMENDS are names that both kinds know.
macro(ol_package part)
	cmake_parse_arguments(P "" "DEB;RPM;SECTION;SUMMARY;TEXT;NEEDS;DEPENDS;RECOMMENDS" "" ${ARGN})
	string(TOUPPER ${part} upper)
	list(APPEND CPACK_COMPONENTS_ALL ${part})
	set(CPACK_COMPONENT_${upper}_DEPENDS ${P_NEEDS})
	set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${P_DEB})
	set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${P_SECTION})
	set(CPACK_DEBIAN_${upper}_DESCRIPTION "${P_SUMMARY}\n${P_TEXT}")
	set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS ${P_DEPENDS})
	set(CPACK_DEBIAN_${upper}_PACKAGE_RECOMMENDS ${P_RECOMMENDS})
	set(CPACK_RPM_${upper}_PACKAGE_NAME ${P_RPM})
	set(CPACK_RPM_${upper}_PACKAGE_SUMMARY ${P_SUMMARY})
	string(REPLACE "\n.\n" "\n\n" CPACK_RPM_${upper}_PACKAGE_DESCRIPTION "${P_TEXT}")
	string(REPLACE ":any" "" needs "${P_DEPENDS}")
	if("${P_NEEDS}" STREQUAL runtime)
		string(JOIN ", " needs "liboutlast1 = ${PROJECT_VERSION}" ${needs})
	endif()
	# cpack knows no Recommends of RPM: it is one more line behind that of Requires.
	if(NOT "${P_RECOMMENDS}" STREQUAL "")
		string(REGEX REPLACE "\\(([^)]*)\\)" "\\1" wants "${P_RECOMMENDS}")
		string(APPEND needs "\nRecommends: ${wants}")
	endif()
	set(CPACK_RPM_${upper}_PACKAGE_REQUIRES "${needs}")
endmacro()

set(about "Outlast trains a model through the loss of its servers. Workers write
gradients into server memory and read weights back with one-sided RDMA,
over InfiniBand, RoCE or shared memory.
.
This package holds")
set(CPACK_COMPONENTS_ALL)
ol_package(runtime DEB liboutlast1 RPM liboutlast1 SECTION libs SUMMARY "RDMA parameter server, library"
	TEXT "${about} the shared library: workers, readers,\nembedded servers.")
ol_package(development DEB liboutlast-dev RPM liboutlast-devel SECTION libdevel NEEDS runtime
	SUMMARY "RDMA parameter server, files for development"
	TEXT "${about} headers, the manual pages of all calls, and\nfiles for pkg-config and CMake.")
if(OUTLAST_TOOLS)
	ol_package(tools DEB outlast RPM outlast SECTION science SUMMARY "RDMA parameter server, program" DEPENDS python3:any
		RECOMMENDS "python3-numpy, python3-scipy, python3-matplotlib"
		TEXT "${about} the program: servers, workers, whole jobs,\nmetrics for Prometheus, benchmarks and failure drills.")
	set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS dataset-fashion-mnist)
	# Nothing is enabled or started: a unit wants a file of settings first.
	set(scripts ${PROJECT_SOURCE_DIR}/tools/service/package)
	set(CPACK_DEBIAN_TOOLS_PACKAGE_CONTROL_EXTRA ${scripts}/deb/postinst ${scripts}/deb/prerm ${scripts}/deb/postrm)
	set(CPACK_DEBIAN_TOOLS_PACKAGE_CONTROL_STRICT_PERMISSION ON)
	set(CPACK_RPM_TOOLS_POST_INSTALL_SCRIPT_FILE ${scripts}/rpm/post)
	set(CPACK_RPM_TOOLS_PRE_UNINSTALL_SCRIPT_FILE ${scripts}/rpm/preun)
	set(CPACK_RPM_TOOLS_POST_UNINSTALL_SCRIPT_FILE ${scripts}/rpm/postun)
endif()
if(OUTLAST_PYTHON)
	ol_package(python DEB python3-outlast RPM python3-outlast SECTION python NEEDS runtime
		SUMMARY "RDMA parameter server, package for Python" DEPENDS "python3:any, python3-cffi, python3-numpy"
		RECOMMENDS "outlast (= ${PROJECT_VERSION}), python3-torch"
		TEXT "${about} the package outlast: weights and gradients as\nnumpy arrays and torch tensors, and an optimizer.")
	set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
	set(CPACK_RPM_PYTHON_PACKAGE_ARCHITECTURE noarch)
	# Compiled files appear once it is used or installed; they leave with it.
	file(CONFIGURE OUTPUT package/postinst CONTENT "#!/bin/sh\nset -e\nif [ \"$1\" = configure ] && command -v py3compile >/dev/null; then
	py3compile -p python3-outlast\nfi\n" NEWLINE_STYLE UNIX)
	file(CONFIGURE OUTPUT package/prerm CONTENT "#!/bin/sh\nset -e\nif command -v py3clean >/dev/null; then
	py3clean -p python3-outlast\nfi\n" NEWLINE_STYLE UNIX)
	file(CONFIGURE OUTPUT package/preun CONTENT "[ \"$1\" != 0 ] ||
	find ${CMAKE_INSTALL_PREFIX}/${OUTLAST_PYTHON_DIR}/outlast -name __pycache__ -prune -exec rm -rf {} +\n")
	set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/package/postinst ${PROJECT_BINARY_DIR}/package/prerm)
	set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_STRICT_PERMISSION ON)
	set(CPACK_RPM_PYTHON_PRE_UNINSTALL_SCRIPT_FILE ${PROJECT_BINARY_DIR}/package/preun)
endif()

# What a program needs that is linked with the library: the version that it was linked with, or a later one.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
file(READ src/liboutlast.map symbols)
string(REGEX MATCHALL "ol_[a-z0-9_]+" symbols "${symbols}")
list(SORT symbols)
list(TRANSFORM symbols REPLACE "(.+)" " \\1@OUTLAST_1 ${PROJECT_VERSION}\n")
string(JOIN "" symbols ${symbols})
file(CONFIGURE OUTPUT package/symbols CONTENT "liboutlast.so.1 liboutlast1 #MINVER#
* Build-Depends-Package: liboutlast-dev
 OUTLAST_1@OUTLAST_1 ${PROJECT_VERSION}\n${symbols}" @ONLY)
file(CONFIGURE OUTPUT package/shlibs CONTENT "liboutlast 1 liboutlast1 (>= ${PROJECT_VERSION})\n")
file(CONFIGURE OUTPUT package/triggers CONTENT "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/package/symbols ${PROJECT_BINARY_DIR}/package/shlibs
	${PROJECT_BINARY_DIR}/package/triggers)
include(CPack)
