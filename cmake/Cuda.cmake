# psgd_cuda_objects(OUT source.cu ...): compiles CUDA sources with nvcc directly, because the CMake
# of Debian 12 does not know the nvcc of CUDA 13. Makes code for the newest common GPU generation,
# and PTX from which the driver compiles code for others.
set(PSGD_CUDA_CODE "-gencode=arch=compute_80,code=compute_80;-gencode=arch=compute_90,code=sm_90"
    CACHE STRING "Options of nvcc that say which GPUs to make code for")
# OPTIONS ... are passed to nvcc, only for these sources.
# The compression format needs a driver of CUDA 13. It takes a third of the default's size, because
# a bundle has little room.
function(psgd_cuda_objects out)
  cmake_parse_arguments(ARG "" "" "OPTIONS" ${ARGN})
  set(objects)
  foreach(source ${ARG_UNPARSED_ARGUMENTS})
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path NORMALIZE)
    file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR} ${path})
    set(object ${CMAKE_BINARY_DIR}/${name}.o)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${PSGD_CCACHE} ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++20 -O3 -DNDEBUG -lineinfo --compress-mode=size
              ${PSGD_CUDA_CODE} ${ARG_OPTIONS} --expt-relaxed-constexpr --extended-lambda
              -Xcompiler=-fPIC,-fvisibility=hidden -I${CMAKE_SOURCE_DIR}
              -MD -MF ${object}.d -c ${path} -o ${object}
      DEPENDS ${path}
      DEPFILE ${object}.d
      COMMENT "Building CUDA object ${name}.o"
      VERBATIM COMMAND_EXPAND_LISTS)
    list(APPEND objects ${object})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()
