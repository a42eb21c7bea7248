# Programs, their plugins and the ready configs.
get_property(programs GLOBAL PROPERTY PSGD_PROGRAMS)
if(programs)
  install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
get_property(plugins GLOBAL PROPERTY PSGD_PLUGINS)
if(plugins)
  install(TARGETS ${plugins} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/psgd)
endif()
# What launch.link of a sweep needs, and its --launcher slurm.
install(PROGRAMS ${CMAKE_SOURCE_DIR}/scripts/netns.sh ${CMAKE_SOURCE_DIR}/deploy/slurm/run.sbatch
  DESTINATION ${CMAKE_INSTALL_DATADIR}/psgd)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/psgd/configs)
