// The interface of every fuzz target: one function that takes any bytes. Clang's libFuzzer calls it
// (preset `fuzz`); with other compilers driver.cc does, so that every target stays in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

// Called before the first input. A target may take arguments that it knows.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
// Returns 0, or ends the program.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace psgd::fuzz {

// Ends the program with the reason, as a sanitizer would.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

// Returns the value of --NAME=VALUE, or "". The value chooses between several ways to read an
// input. The corpus is corpus/NAME/VALUE.
inline std::string Variant(const std::string& name, int argc, char** argv) {
  const std::string flag = "--" + name + "=";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind(flag, 0) == 0) return argument.substr(flag.size());
  }
  return "";
}

}  // namespace psgd::fuzz
