# Installs programs, their plugins and the ready configs.
get_property(programs GLOBAL PROPERTY PSGD_PROGRAMS)
if(programs)
  install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT psgd)
endif()
get_property(plugins GLOBAL PROPERTY PSGD_PLUGINS)
if(plugins)
  foreach(plugin ${plugins})
    string(REGEX MATCH "cu(da|dnn)" component ${plugin})
    if(component)
      set(component cuda)
    else()
      set(component psgd)
    endif()
    install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/psgd COMPONENT ${component})
  endforeach()
endif()
# Where Debian's Python looks below /usr; libpsgd.so is in the same lib/.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/psgd DESTINATION lib/python3/dist-packages COMPONENT psgd
  PATTERN __pycache__ EXCLUDE PATTERN *.so EXCLUDE)
# Needed by a sweep's launch.link and by --launcher slurm.
install(PROGRAMS ${CMAKE_SOURCE_DIR}/scripts/netns.sh ${CMAKE_SOURCE_DIR}/scripts/netns_delay.py
  ${CMAKE_SOURCE_DIR}/deploy/slurm/run.sbatch
  DESTINATION ${CMAKE_INSTALL_DATADIR}/psgd COMPONENT psgd)
# The programs themselves print their manual pages and completions.
install(CODE "
  set(programs \"${programs}\")
  set(bin \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}\")
  set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
  include(\"${CMAKE_SOURCE_DIR}/cmake/InstallSpoken.cmake\")"
  COMPONENT psgd)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/psgd/configs COMPONENT psgd)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/deploy/ DESTINATION ${CMAKE_INSTALL_DATADIR}/psgd/deploy COMPONENT psgd
  USE_SOURCE_PERMISSIONS)
# systemd looks here, also below a prefix other than /usr.
install(FILES ${CMAKE_SOURCE_DIR}/deploy/systemd/ps-server@.service ${CMAKE_SOURCE_DIR}/deploy/systemd/ps-worker@.service
  DESTINATION lib/systemd/system COMPONENT psgd)
install(FILES ${CMAKE_SOURCE_DIR}/deploy/systemd/psgd.sysusers DESTINATION lib/sysusers.d RENAME psgd.conf COMPONENT psgd)
install(PROGRAMS ${CMAKE_SOURCE_DIR}/scripts/make-certs.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/psgd COMPONENT psgd)
