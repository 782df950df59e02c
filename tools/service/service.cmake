# SPDX-License-Identifier: BSD-3-Clause
# service.cmake -- units for systemd, and what they need of the system (README.md)
#
# Units name the program by its whole path. So they are of the prefix that was configured, and another one that
# `cmake --install --prefix` is given takes another configuration.

file(READ ${CMAKE_CURRENT_LIST_DIR}/confined.in ol_confined)
set(ol_bindir ${CMAKE_INSTALL_FULL_BINDIR})
set(ol_datadir ${CMAKE_INSTALL_FULL_DATADIR})
foreach(unit outlast-serve@ outlast-metrics@ outlast-relay@)
	configure_file(${CMAKE_CURRENT_LIST_DIR}/${unit}.service.in ${PROJECT_BINARY_DIR}/service/${unit}.service @ONLY)
	install(FILES ${PROJECT_BINARY_DIR}/service/${unit}.service DESTINATION lib/systemd/system COMPONENT tools)
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/confined.in)
foreach(kind sysusers tmpfiles)
	install(FILES ${CMAKE_CURRENT_LIST_DIR}/${kind}.conf DESTINATION lib/${kind}.d RENAME outlast.conf COMPONENT tools)
endforeach()
install(FILES ${CMAKE_CURRENT_LIST_DIR}/serve.conf ${CMAKE_CURRENT_LIST_DIR}/cnn7.conf
	${CMAKE_CURRENT_LIST_DIR}/cnn7.metrics.conf ${CMAKE_CURRENT_LIST_DIR}/cnn7.relay.conf DESTINATION ${CMAKE_INSTALL_DATADIR}/outlast/service COMPONENT tools)
