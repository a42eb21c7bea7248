// All programs in one binary, which acts as the program of the name it was called by. In bundles
// each program is a link to this binary.
#include <cstdio>
#include <cstring>

#include "apps/program_mains.h"

namespace {

struct Program {
  const char* name;
  int (*main)(int argc, char** argv);
};

constexpr Program kPrograms[] = {
    {"ps-bench", ps_bench_main}, {"ps-ctl", ps_ctl_main},       {"ps-doctor", ps_doctor_main},
    {"ps-run", ps_run_main},     {"ps-server", ps_server_main}, {"ps-sim", ps_sim_main},
    {"ps-sweep", ps_sweep_main}, {"ps-worker", ps_worker_main},
};

}  // namespace

int main(int argc, char** argv) {
  const char* path = argc > 0 ? argv[0] : "";
  const char* slash = std::strrchr(path, '/');
  const char* name = slash == nullptr ? path : slash + 1;
  for (const Program& program : kPrograms) {
    if (std::strcmp(program.name, name) == 0) return program.main(argc, argv);
  }
  std::fprintf(stderr, "%s: call it by a program's name:", path);
  for (const Program& program : kPrograms) std::fprintf(stderr, " %s", program.name);
  std::fputc('\n', stderr);
  return 2;
}
