#include "net/ucx/ucx_library.h"

#include <csignal>
#include <iterator>

#include "absl/strings/match.h"
#include "common/loaded_library.h"

namespace psgd {
namespace {

// When it is loaded, UCX takes over the signals of crashes to print a trace. They stay as they
// were: the system writes core dumps, and sanitizers report.
class KeptSignals {
 public:
  KeptSignals() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], nullptr, &actions_[i]);
  }
  ~KeptSignals() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], &actions_[i], nullptr);
  }

 private:
  static constexpr int kSignals[] = {SIGILL, SIGABRT, SIGFPE, SIGBUS, SIGSEGV};
  struct sigaction actions_[std::size(kSignals)];
};

absl::StatusOr<UcxLibrary> Open() {
  const KeptSignals signals;
  PSGD_ASSIGN_OR_RETURN(
      LoadedLibrary library,
      LoadedLibrary::Load("libucp.so.0",
                          "for UCX install libucx0 or name its folder in LD_LIBRARY_PATH; "
                          "cluster.transport: auto also does without"));
  UcxLibrary ucx;
#define PSGD_FIND(name, member) library.Find(#name, &ucx.member);
  PSGD_UCX_FUNCTIONS(PSGD_FIND)
#undef PSGD_FIND
  PSGD_RETURN_IF_ERROR(library.FoundAll("UCX 1.13 and later have it"));
  // Lost peers are ordinary here, and UCX would warn of each. A level that UCX_LOG_LEVEL asks for
  // stays.
  char level[32] = {};
  if (ucx.get_global_option("LOG_LEVEL", level, sizeof(level)) == UCS_OK &&
      absl::EqualsIgnoreCase(level, "warn")) {
    (void)ucx.set_global_option("LOG_LEVEL", "fatal");
  }
  return ucx;
}

}  // namespace

absl::StatusOr<const UcxLibrary*> UcxLibrary::Load() {
  static const absl::StatusOr<UcxLibrary> loaded = Open();
  PSGD_RETURN_IF_ERROR(loaded.status());
  return &*loaded;
}

}  // namespace psgd
