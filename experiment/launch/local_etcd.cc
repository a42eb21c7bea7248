#include "experiment/launch/local_etcd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/files.h"
#include "common/shell_line.h"
#include "experiment/launch/program_dir.h"
#include "experiment/record/run_dir.h"
#include "net/credentials.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/journal_folder.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr Duration kReadyPatience = std::chrono::seconds(20);
constexpr Duration kReadyLook = std::chrono::milliseconds(20);
constexpr int kAttempts = 5;
constexpr size_t kMostLogBytes = size_t{1} << 20;  // then the next start begins a new one
constexpr int kMostRestarts = 3;
constexpr Duration kRestartsWithin = std::chrono::minutes(1);

// A free port of this machine; 0: none.
int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(socket);
  return bound ? ntohs(address.sin_port) : 0;
}

bool SaysReady(const std::string& log_file, size_t from) {
  std::ifstream log(log_file);
  log.seekg(static_cast<std::streamoff>(from));
  std::string line;
  while (std::getline(log, line)) {
    if (line.find("client requests on") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<FileDescriptor> LocalEtcd::Lock(const std::string& run_dir) {
  const std::string folder = RunDir(run_dir).ServerDir();
  PSGD_RETURN_IF_ERROR(MakeFolders(folder));
  FileDescriptor lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.open()) return FileError("open", folder, errno);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  return FailedPreconditionError("another ps-run uses ", run_dir, "; look at it with  ",
                                 ShellLine({"ps-ctl", "status", run_dir}),
                                 "  or wait until it has ended");
}

absl::StatusOr<std::unique_ptr<LocalEtcd>> LocalEtcd::Start(const std::string& server_dir,
                                                            const std::string& tls_dir, Data data,
                                                            const std::atomic<int>* stops) {
  const auto program = FoundProgram("etcd");
  if (!program.ok()) {
    return absl::NotFoundError(
        "cluster.copies above 1 need an etcd, which settles who leads: install it (apt-get install "
        "etcd-server) and ps-run starts one for this run, or name one with --etcd HOST:PORT");
  }
  std::unique_ptr<LocalEtcd> etcd(new LocalEtcd(EtcdFolder(server_dir), stops));
  etcd->PutEarlierBack();
  std::error_code failed;
  if (data == Data::kNew && fs::exists(etcd->folder_)) {
    fs::rename(etcd->folder_, etcd->Aside(), failed);
    if (failed) return FileError("rename", etcd->folder_, failed.value());
  }
  absl::Status launched;
  // etcd cannot choose its own ports, so another program may take the port first.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // etcd that died as it made its data may never lead with them.
    if (data == Data::kNew) fs::remove_all(etcd->folder_, failed);
    etcd->TakePorts(*program, tls_dir);
    launched = etcd->Launch(/*most_stops=*/0);
    if (launched.ok()) return etcd;
    if (absl::IsCancelled(launched)) break;
  }
  return launched;
}

void LocalEtcd::TakePorts(const std::string& program, const std::string& tls_dir) {
  const std::string address = absl::StrCat("127.0.0.1:", FreePort());
  const std::string clients = absl::StrCat(tls_dir.empty() ? "http://" : "https://", address);
  const std::string peers = absl::StrCat("http://127.0.0.1:", FreePort());
  argv_ = {program, "--data-dir", folder_, "--listen-client-urls", clients,
           "--advertise-client-urls", clients, "--listen-peer-urls", peers,
           "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers,
           // Each change of the run's record is a revision, of which only the latest counts.
           "--auto-compaction-mode=revision", "--auto-compaction-retention=100",
           "--max-request-bytes=33554432"};
  if (!tls_dir.empty()) {
    const CredentialFiles files = CredentialFilesIn(tls_dir, "server");
    argv_.insert(argv_.end(), {"--client-cert-auth", "--trusted-ca-file", files.ca, "--cert-file",
                               files.certificate, "--key-file", files.key});
  }
  members_ = tls_dir.empty() ? address : clients;
}

absl::Status LocalEtcd::Launch(int most_stops) {
  std::error_code none;
  auto log_begins = fs::file_size(LogFile(), none);
  if (none) log_begins = 0;
  if (log_begins > kMostLogBytes) {
    fs::rename(LogFile(), EarlierLogFile(), none);
    if (!none) log_begins = 0;
  }
  ChildOptions child;
  child.name = "etcd";
  child.stderr_file = LogFile();
  child.argv = argv_;
  PSGD_ASSIGN_OR_RETURN(process_, ChildProcess::Start(std::move(child)));
  if (WaitReady(log_begins, most_stops)) return absl::OkStatus();
  if (Stopped(most_stops)) return absl::CancelledError("stopped before the run's etcd was ready");
  return UnavailableError("etcd did not start: it ", process_->HowItEnded(), "\n",
                          TailOfFile(LogFile(), 3));
}

bool LocalEtcd::WaitReady(size_t log_begins, int most_stops) {
  const Time start = SteadyNow();
  while (process_->Running() && SteadyNow() - start < kReadyPatience && !Stopped(most_stops)) {
    if (SaysReady(LogFile(), log_begins)) return true;
    std::this_thread::sleep_for(kReadyLook);
  }
  process_->Kill();
  return false;
}

absl::StatusOr<std::string> LocalEtcd::KeepRunning() {
  if (process_->Running()) return "";
  const std::string how = absl::StrCat("the run's etcd ", process_->HowItEnded());
  const Time now = SteadyNow();
  std::erase_if(restarts_, [&](Time at) { return now - at > kRestartsWithin; });
  if (restarts_.size() >= kMostRestarts) {
    return UnavailableError(how, ", and was started again ", kMostRestarts,
                            " times within a minute; the end of ", LogFile(), ":\n",
                            TailOfFile(LogFile(), 3));
  }
  restarts_.push_back(now);
  const absl::Status launched = Launch(/*most_stops=*/1);
  return absl::StrCat(how, launched.ok()
                               ? "; it is started again over its data, and training goes on"
                               : absl::StrCat("; ", launched.message()));
}

std::string LocalEtcd::LogFile() const { return EtcdLog(folder_); }

void LocalEtcd::DropEarlier() {
  std::error_code ignored;
  fs::remove_all(Aside(), ignored);
}

void LocalEtcd::PutEarlierBack() {
  std::error_code ignored;
  if (!fs::exists(Aside(), ignored)) return;
  fs::remove_all(folder_, ignored);
  fs::rename(Aside(), folder_, ignored);
}

void LocalEtcd::Remove() {
  process_.reset();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  fs::remove(LogFile(), ignored);
  fs::remove(EarlierLogFile(), ignored);
}

LocalEtcd::~LocalEtcd() {
  process_.reset();
  PutEarlierBack();
}

}  // namespace psgd
