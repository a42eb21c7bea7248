// For a gRPC library built without the thread sanitizer. The sanitizer does not see gRPC's locks,
// so data passed through gRPC looks like a race. Suppressed are accesses by gRPC's own headers, and
// a stream's constructor and destructor: the constructor runs before gRPC can call back, the
// destructor after gRPC's last callback. All other accesses are under our mutex and checked.
#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race_top:grpc::\n"
         "race_top:std::_Any_data\n"
         "race_top:std::_Function_base\n"
         "race_top:std::function<\n"
         "race_top:std::__shared_ptr<psgd::GrpcShared\n"
         "race_top:psgd::GrpcStream::~GrpcStream\n"
         "race:RefusedCall\n";
}
#endif
