// gRPC's headers put code into our binary that relies on locks inside its library, which the thread
// sanitizer does not see. Only accesses made by that code itself are suppressed, not ours below it.
#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race_top:grpc::\n"
         "race_top:std::swap<std::_Any_data>\n"
         "race_top:std::_Any_data\n";
}
#endif
