# `cmake --install build/release --prefix …`: the command, the TPU library with its engine, the
# systemd unit, the manual page and the completions.
include(GNUInstallDirs)

install(TARGETS torus RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# Not the multiarch folder: the service looks in ../lib/torus from its own place.
install(TARGETS tpu LIBRARY DESTINATION lib/torus)
install(TARGETS torus-verify RUNTIME DESTINATION lib/torus)
install(FILES ${TORUS_DEPS}/engine/xla_cpu.so DESTINATION lib/torus/engine)

# The unit names the prefix that it is installed into, which --prefix may set late.
set(TORUS_UNIT_TEMPLATE ${CMAKE_CURRENT_LIST_DIR}/../packaging/torus.service.in)
install(CODE "
  set(TORUS_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
  configure_file(\"${TORUS_UNIT_TEMPLATE}\" \"${CMAKE_BINARY_DIR}/share/torus.service\" @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/share/torus.service DESTINATION lib/systemd/system)

install(FILES ${CMAKE_BINARY_DIR}/share/torus.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_BINARY_DIR}/share/torus.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME torus)
install(FILES ${CMAKE_BINARY_DIR}/share/_torus
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${CMAKE_BINARY_DIR}/share/torus.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
