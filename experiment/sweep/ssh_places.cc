#include "experiment/sweep/ssh_places.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/shell_line.h"
#include "experiment/launch/program_dir.h"
#include "experiment/sweep/attend.h"
#include "experiment/sweep/run_command.h"

namespace psgd {
namespace {

constexpr Duration kBeatPeriod = std::chrono::seconds(5);
constexpr Duration kProbeDeadline = std::chrono::seconds(40);
constexpr Duration kFirstProbeAgain = std::chrono::seconds(5);
constexpr Duration kLongestProbeAgain = std::chrono::seconds(300);
constexpr int kSshFailed = 255;
constexpr int kNoSuchProgram = 127;  // in a shell
constexpr size_t kMostHostsBytes = size_t{1} << 20;

bool IsHostChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("._-+@%:/=,[]").find(c) != std::string_view::npos;
}

std::string LastLine(const ChildProcess& child) {
  const std::vector<std::string> lines = absl::StrSplit(child.StderrTail(), '\n');
  std::string line(absl::StripAsciiWhitespace(lines.back()));
  return line.empty() ? absl::StrCat("ssh ", child.HowItEnded()) : line;
}

std::vector<int> CoresIn(const std::string& line) {
  std::vector<int> cores;
  for (const absl::string_view word : absl::StrSplit(line, ',')) {
    int core = 0;
    if (!absl::SimpleAtoi(word, &core)) return {};
    cores.push_back(core);
  }
  return cores;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseHosts(const std::string& list,
                                                    const std::string& file) {
  std::string text = absl::StrReplaceAll(list, {{",", "\n"}});
  if (!file.empty()) {
    PSGD_ASSIGN_OR_RETURN(const std::string lines, ReadSmallFile(file, kMostHostsBytes));
    absl::StrAppend(&text, "\n", lines);
  }
  std::vector<std::string> hosts;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::string host(absl::StripAsciiWhitespace(line.substr(0, line.find('#'))));
    if (host.empty()) continue;
    if (host.front() == '-' || !std::all_of(host.begin(), host.end(), IsHostChar)) {
      return InvalidArgumentError(
          "\"", host, "\" is no host; write a name that ssh knows, as node-1 or user@10.0.0.2");
    }
    if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) {
      return InvalidArgumentError(
          "host ", host, " is named twice; --parallel says how many runs a host has at a time");
    }
    hosts.push_back(host);
  }
  if (!hosts.empty()) return hosts;
  return absl::InvalidArgumentError(
      "--launcher ssh: no hosts given; say --hosts a,b,c or --hosts-file FILE");
}

SshPlaces::SshPlaces(SweepDir dir, SshOptions options)
    : dir_(std::move(dir)), options_(std::move(options)) {
  for (const std::string& name : options_.hosts) hosts_.emplace_back().name = name;
}

std::vector<std::string> SshPlaces::SshTo(const Host& host,
                                          const std::vector<std::string>& words) const {
  // The user's options come first, because ssh uses the first value. ssh never asks for passwords
  // or host keys, and notices a dead machine.
  std::vector<std::string> argv = options_.command;
  for (const char* option :
       {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=4"}) {
    argv.insert(argv.end(), {"-o", option});
  }
  argv.insert(argv.end(), {"-T", host.name, ShellLine(words)});
  return argv;
}

absl::Status SshPlaces::Look() {
  beats_ = SteadyNow() - beat_ >= kBeatPeriod;
  if (beats_) beat_ = SteadyNow();
  for (Host& host : hosts_) {
    if (host.probe != nullptr) {
      Probed(&host);
    } else if (!host.up && SteadyNow() - host.probed >= host.probe_again) {
      PSGD_RETURN_IF_ERROR(StartProbe(&host));
    }
  }
  if (any_ever_up_) return absl::OkStatus();
  std::string troubles;
  for (const Host& host : hosts_) {
    if (host.trouble.empty()) return absl::OkStatus();  // a host has not answered yet
    absl::StrAppend(&troubles, "\n  ", host.name, ": ", host.trouble);
  }
  return UnavailableError("none of the hosts can be used:", troubles);
}

absl::Status SshPlaces::StartProbe(Host* host) {
  PSGD_ASSIGN_OR_RETURN(const std::string program, SiblingProgram("ps-sweep"));
  ChildOptions child;
  child.name = "ssh";
  child.argv = SshTo(*host, {program, "attend", "--folder", std::filesystem::current_path(),
                             "--lock", dir_.LockFile(), "--probe"});
  PSGD_ASSIGN_OR_RETURN(host->probe, ChildProcess::Start(std::move(child)));
  host->probed = SteadyNow();
  return absl::OkStatus();
}

void SshPlaces::Probed(Host* host) {
  if (host->probe->Running()) {
    if (SteadyNow() - host->probed < kProbeDeadline) return;
    host->probe.reset();
    Down(host, "ssh does not answer");
    return;
  }
  const std::unique_ptr<ChildProcess> probe = std::move(host->probe);
  ShareOptions share = options_.of_host;
  share.cores.clear();
  if (probe->exit_code() == 0) {
    share.cores = CoresIn(probe->ReadLine(Duration::zero()).value_or(""));
  }
  if (share.cores.empty()) {
    Down(host, LastLine(*probe));
    return;
  }
  if (const absl::Status enough = CheckShares(share, host->name); !enough.ok()) {
    Down(host, std::string(enough.message()));
    return;
  }
  host->shares = Shares(share);
  if (!host->told_shares) {
    for (std::string& note : SharedNotes(share, host->name)) news_.push_back(std::move(note));
  }
  host->told_shares = true;
  if (!host->trouble.empty())
    news_.push_back(absl::StrCat("host ", host->name, " can be used again"));
  host->trouble.clear();
  host->probe_again = Duration::zero();
  host->up = any_ever_up_ = true;
}

void SshPlaces::Down(Host* host, const std::string& why) {
  host->up = false;
  host->probed = SteadyNow();
  host->probe_again = std::clamp(2 * host->probe_again, kFirstProbeAgain, kLongestProbeAgain);
  if (host->trouble.empty()) {
    news_.push_back(absl::StrCat("host ", host->name, " cannot be used: ", why,
                                 "; its runs go to other hosts, and it is tried again"));
  }
  host->trouble = why;
}

absl::StatusOr<RunCommand> SshPlaces::Command(const PlannedRun& run, size_t slot, bool resume) {
  const Share& share = HostOf(slot).shares[slot % parallel()];
  PSGD_ASSIGN_OR_RETURN(const std::string program, SiblingProgram("ps-sweep"));
  PSGD_ASSIGN_OR_RETURN(const std::vector<std::string> ps_run,
                        PsRunCommand(dir_, run, share, resume));
  std::vector<std::string> words = {program,    "attend",
                                    "--folder", std::filesystem::current_path(),
                                    "--lock",   dir_.RunLock(run.id),
                                    "--log",    dir_.LogFile(run.id),
                                    "--cores",  absl::StrJoin(share.cores, ","),
                                    "--"};
  words.insert(words.end(), ps_run.begin(), ps_run.end());
  RunCommand command;
  command.argv = SshTo(HostOf(slot), words);
  command.is_ps_run = false;
  command.listens = true;
  command.takes_lock = true;
  return command;
}

void SshPlaces::Attend(ChildProcess& child) {
  if (beats_) child.Say(kAttendBeat);
}

void SshPlaces::Stop(const PlannedRun&, ChildProcess& child, bool) { child.Say(kAttendStop); }

std::optional<std::string> SshPlaces::Lost(size_t slot, const ChildProcess& child) {
  const int code = child.exit_code();
  const bool unfit = code == kSshFailed || code == kExitUnfit || code == kNoSuchProgram || code < 0;
  if (!unfit) return std::nullopt;
  std::string why = LastLine(child);
  Down(&hosts_[slot / parallel()], why);
  return why;
}

}  // namespace psgd
