// The other end of --launcher ssh: starts a run's ps-run on this machine for a ps-sweep elsewhere,
// and sees that it does not outlive the wish for it.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"

namespace psgd {

// What ps-sweep says, a line each, on the standard input of who attends.
inline constexpr char kAttendBeat[] = "beat";  // it is there, and so is the connection
inline constexpr char kAttendStop[] = "stop";  // as Ctrl-C of ps-run

// The exit code where this machine cannot run it, which says nothing about the run.
inline constexpr int kExitUnfit = 75;

struct AttendOptions {
  std::string folder;  // to work in, for paths in configs
  std::string lock;    // of the run, in the folder that all machines share
  std::string log;     // what ps-run says
  std::vector<int> cores;
  Duration silence = std::chrono::seconds(30);  // so long without a word: nobody is there
  Duration grace = std::chrono::seconds(30);    // for a checkpoint, when nobody is there
  std::vector<std::string> command;
  const std::atomic<int>* stops = nullptr;
};

// The exit code of the command. An error: it could not be started here.
absl::StatusOr<int> Attend(const AttendOptions& options);

// The cores of this machine as 0,1,2, if it is fit: it has the folder, and finds the lock held, as
// the ps-sweep that asks does hold it.
absl::StatusOr<std::string> ProbeHost(const std::string& folder, const std::string& lock);

}  // namespace psgd
