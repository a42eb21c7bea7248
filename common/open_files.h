// How many files this process may have open. Each connection takes some.
#pragma once

#include <string>

namespace psgd {

// Raises the limit as far as the system lets this process: many systems begin with 1024.
void RaiseOpenFilesLimit();

// Whether this process can open that many more files now.
bool CanOpenFiles(int count);

// "this process has 1020 files open and may have 1024, and up to 4096 after ulimit -n 4096", for
// errors that too many open files may have caused.
std::string OpenFilesText();

}  // namespace psgd
