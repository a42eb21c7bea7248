// Runs on machines reached by ssh that share a folder with this machine. On each, `ps-sweep attend`
// starts ps-run and ends it when the connection ends. So a killed ps-sweep or a cut-off machine
// leaves no run behind.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "experiment/plan/resources.h"
#include "experiment/plan/sweep_dir.h"
#include "experiment/sweep/run_places.h"

namespace psgd {

struct SshOptions {
  std::vector<std::string> command;  // ssh, with the user's options
  std::vector<std::string> hosts;    // in ssh's form; each once
  ShareOptions of_host;              // the same for each host; each host reports its cores
};

// Parses "a,user@b", or the lines of a file, where # begins a comment.
absl::StatusOr<std::vector<std::string>> ParseHosts(const std::string& list,
                                                    const std::string& file);

class SshPlaces : public RunPlaces {
 public:
  // `dir` must be absolute and locked by this process.
  SshPlaces(SweepDir dir, SshOptions options);

  size_t slots() const override { return hosts_.size() * parallel(); }
  absl::Status Look() override;
  std::vector<std::string> TakeNews() override { return std::exchange(news_, {}); }
  bool Usable(size_t slot) const override { return HostOf(slot).up; }
  std::string Where(size_t slot) const override { return " on " + HostOf(slot).name; }
  absl::StatusOr<RunCommand> Command(const PlannedRun& run, size_t slot, bool resume) override;
  void Attend(ChildProcess& child) override;
  void Stop(const PlannedRun& run, ChildProcess& child, bool at_once) override;
  std::optional<std::string> Lost(size_t slot, const ChildProcess& child) override;

 private:
  struct Host {
    std::string name;
    bool up = false;
    std::vector<Share> shares;
    std::unique_ptr<ChildProcess> probe;  // in progress
    Time probed{};
    Duration probe_again{};
    bool told_shares = false;
    std::string trouble;  // the last problem; empty: none
  };

  size_t parallel() const { return static_cast<size_t>(options_.of_host.parallel); }
  const Host& HostOf(size_t slot) const { return hosts_[slot / parallel()]; }
  std::vector<std::string> SshTo(const Host& host, const std::vector<std::string>& words) const;
  absl::Status StartProbe(Host* host);
  void Probed(Host* host);
  void Down(Host* host, const std::string& why);

  const SweepDir dir_;
  const SshOptions options_;
  std::vector<Host> hosts_;
  std::vector<std::string> news_;
  Time beat_{};
  bool beats_ = false;  // in this round
  bool any_ever_up_ = false;
};

}  // namespace psgd
