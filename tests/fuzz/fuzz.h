// What every fuzz target has: one function that takes any bytes. Clang's libFuzzer calls it where
// that is there (preset `fuzz`), else driver.cc, so that no target falls out of use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

// Before the first input; may take arguments that it knows.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
// Returns 0, or does not return.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace psgd::fuzz {

// Ends the program with the reason, as a sanitizer would.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

// Of --NAME=VALUE; empty where it is not given. A target with several ways to read an input is told
// by it which, and corpus/NAME/VALUE is what it begins with.
inline std::string Variant(const std::string& name, int argc, char** argv) {
  const std::string flag = "--" + name + "=";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind(flag, 0) == 0) return argument.substr(flag.size());
  }
  return "";
}

}  // namespace psgd::fuzz
