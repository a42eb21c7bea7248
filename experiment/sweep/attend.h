// The remote end of --launcher ssh: starts ps-run on this machine for a ps-sweep elsewhere, and
// ends it when that ps-sweep is gone.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"

namespace psgd {

// The lines that ps-sweep sends to the standard input of `ps-sweep attend`.
inline constexpr char kAttendBeat[] = "beat";  // ps-sweep and the connection are alive
inline constexpr char kAttendStop[] = "stop";  // the same as Ctrl-C in ps-run

// Exit code if this machine cannot run it, which says nothing about the run.
inline constexpr int kExitUnfit = 75;

struct AttendOptions {
  std::string folder;  // the working directory, for paths in configs
  std::string lock;    // the run's lock, in the folder that all machines share
  std::string log;     // the output of ps-run
  std::vector<int> cores;
  Duration silence = std::chrono::seconds(30);  // with no line for so long, ps-sweep counts as gone
  Duration grace = std::chrono::seconds(30);    // for a checkpoint, after ps-sweep is gone
  std::vector<std::string> command;
  const std::atomic<int>* stops = nullptr;
};

// Returns the exit code of the command. Fails if the command could not be started here.
absl::StatusOr<int> Attend(const AttendOptions& options);

// Returns the cores of this machine as 0,1,2 if it is fit: it sees the folder, and sees that the
// asking ps-sweep holds the lock.
absl::StatusOr<std::string> ProbeHost(const std::string& folder, const std::string& lock);

}  // namespace psgd
