# psgd_cuda_objects(OUT source.cu ...): compiles CUDA sources with nvcc directly, because the CMake
# of Debian 12 does not know the nvcc of CUDA 13.
set(PSGD_CUDA_ARCHITECTURES AUTO CACHE STRING
    "Compute capabilities to make machine code for, as 80;90. AUTO: those of 80, 90 and 100 that nvcc knows")

# Sets psgd_nvcc_options, and the global property PSGD_CUDA_OLDEST: the oldest compute capability, as
# 75, whose devices can run the code. There is always PTX for the oldest that nvcc knows (CUDA 12: 7.0,
# CUDA 13: 7.5). From PTX the driver makes code for devices without machine code.
function(psgd_choose_cuda_code)
  execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} --list-gpu-arch OUTPUT_VARIABLE listed)
  string(REGEX MATCHALL "[0-9]+" known "${listed}")
  set(oldest 1000)
  foreach(capability ${known})
    # Kernels need warps whose threads advance on their own.
    if(capability GREATER_EQUAL 70 AND capability LESS oldest)
      set(oldest ${capability})
    endif()
  endforeach()
  set(chosen ${PSGD_CUDA_ARCHITECTURES})
  if(chosen STREQUAL AUTO)
    set(chosen 80 90 100)
  endif()
  set(options -gencode=arch=compute_${oldest},code=compute_${oldest})
  foreach(capability ${chosen})
    if(capability IN_LIST known)
      list(APPEND options -gencode=arch=compute_${capability},code=sm_${capability})
    endif()
  endforeach()
  # This format of the code takes a third of the default's size, because a bundle has little room. It
  # needs a driver of CUDA 13, and older toolkits do not have it.
  execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} --help OUTPUT_VARIABLE help)
  if(help MATCHES "--compress-mode")
    list(APPEND options --compress-mode=size)
  endif()
  set(psgd_nvcc_options ${options} PARENT_SCOPE)
  set_property(GLOBAL PROPERTY PSGD_CUDA_OLDEST ${oldest})
endfunction()

# OPTIONS ... are passed to nvcc, only for these sources. REQUIRES: psgd_choose_cuda_code was called.
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
      COMMAND ${PSGD_CCACHE} ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++20 -O3 -DNDEBUG
              ${psgd_nvcc_options} ${ARG_OPTIONS} --expt-relaxed-constexpr --extended-lambda
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
