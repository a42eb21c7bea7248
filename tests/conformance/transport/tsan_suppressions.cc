// For a gRPC library that is not built with the thread sanitizer: what happens in its locks is not
// seen, so that everything handed through it looks like a race. Suppressed are accesses by gRPC's
// own headers, and a stream's first and last: its constructor comes before the call that makes gRPC
// call back, its destructor after gRPC's last word. What lies between is under our mutex and
// checked.
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
