// CUDA's driver on a host that has none. cuDNN compiles some engines for a plan, and a plan is only
// complete once the driver has taken the code. This one takes all code and runs none.
//
// cuDNN and its compiler look functions up by name and give up if one of these is missing. The
// functions ignore arguments that they do not need, so they do not declare them.
#include <cuda_runtime_api.h>

#define PSGD_DRIVER(name, ...) \
  extern "C" __attribute__((visibility("default"))) int name(__VA_ARGS__)
#define PSGD_REFUSES(name) \
  PSGD_DRIVER(name) { return cudaErrorNotSupported; }
#define PSGD_ACCEPTS(name) \
  PSGD_DRIVER(name) { return cudaSuccess; }
// The object that it makes: only this driver gets it back.
#define PSGD_MAKES(name)           \
  PSGD_DRIVER(name, void** made) { \
    static char object;            \
    *made = &object;               \
    return cudaSuccess;            \
  }

PSGD_ACCEPTS(cuInit)
PSGD_DRIVER(cuDriverGetVersion, int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
PSGD_DRIVER(cuGetErrorName, int, const char** text) {
  *text = "an error of a driver without devices";
  return cudaSuccess;
}
PSGD_DRIVER(cuGetErrorString, int, const char** text) { return cuGetErrorName(0, text); }

PSGD_MAKES(cuLibraryLoadData)
PSGD_MAKES(cuLibraryGetKernel)
PSGD_MAKES(cuKernelGetFunction)
PSGD_ACCEPTS(cuLibraryUnload)
PSGD_ACCEPTS(cuKernelSetAttribute)
PSGD_MAKES(cuModuleLoadData)
PSGD_MAKES(cuModuleLoadDataEx)
PSGD_MAKES(cuModuleLoadFatBinary)
PSGD_MAKES(cuModuleGetFunction)
PSGD_ACCEPTS(cuModuleUnload)
PSGD_ACCEPTS(cuFuncSetAttribute)
PSGD_DRIVER(cuKernelGetAttribute, int* value) {
  *value = 0;
  return cudaSuccess;
}
PSGD_DRIVER(cuFuncGetAttribute, int* value) { return cuKernelGetAttribute(value); }
PSGD_DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor, int* blocks) {
  *blocks = 1;
  return cudaSuccess;
}
PSGD_DRIVER(cuOccupancyMaxPotentialClusterSize, int* size) {
  *size = 1;
  return cudaSuccess;
}

// No device, context or stream exists.
PSGD_REFUSES(cuCtxGetCurrent)
PSGD_REFUSES(cuCtxGetDevice)
PSGD_REFUSES(cuCtxGetLimit)
PSGD_REFUSES(cuCtxPopCurrent)
PSGD_REFUSES(cuCtxPushCurrent)
PSGD_REFUSES(cuDeviceGet)
PSGD_REFUSES(cuDeviceGetAttribute)
PSGD_REFUSES(cuDeviceGetCount)
PSGD_REFUSES(cuDevicePrimaryCtxRelease)
PSGD_REFUSES(cuDevicePrimaryCtxReset)
PSGD_REFUSES(cuDevicePrimaryCtxRetain)
PSGD_REFUSES(cuGetExportTable)
PSGD_REFUSES(cuGetProcAddress)
PSGD_REFUSES(cuGetProcAddress_v2)
PSGD_REFUSES(cuLaunchCooperativeKernel)
PSGD_REFUSES(cuLaunchKernel)
PSGD_REFUSES(cuLaunchKernelEx)
PSGD_REFUSES(cuLibraryLoadFromFile)
PSGD_REFUSES(cuLinkAddData)
PSGD_REFUSES(cuLinkComplete)
PSGD_REFUSES(cuLinkCreate)
PSGD_REFUSES(cuLinkDestroy)
PSGD_REFUSES(cuStreamGetCtx)
PSGD_REFUSES(cuStreamSynchronize)
PSGD_REFUSES(cuTensorMapEncodeIm2col)
PSGD_REFUSES(cuTensorMapEncodeTiled)
