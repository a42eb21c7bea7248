#include "tests/certificates/certificates.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/folders.h"

namespace psgd {
namespace {

void MakeCerts(std::vector<std::string> arguments) {
  const std::string script = SourceDir() + "/scripts/make-certs.sh";
  arguments.insert(arguments.begin(), script);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    if (freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
    execv(argv[0], argv.data());
    _exit(126);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0) << script << " failed";
}

}  // namespace

Certificates::Certificates(const std::vector<std::string>& hosts) {
  std::string pattern = "/tmp/psgd-certs-XXXXXX";  // not below TMPDIR, which tests look at
  dir_ = mkdtemp(pattern.data());
  std::vector<std::string> arguments = {dir_};
  arguments.insert(arguments.end(), hosts.begin(), hosts.end());
  MakeCerts(arguments);
}

Certificates::~Certificates() {
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

std::string Certificates::Read(const std::string& file) const {
  std::ifstream stream(Path(file));
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Valid for no day: until the second in which it was made.
void Certificates::LetExpire(const std::string& role) const {
  MakeCerts({"--renew", role, "--days", "0", dir_});
}

void Certificates::RenewServers(const std::vector<std::string>& hosts) const {
  std::vector<std::string> arguments = {"--renew", "server", dir_};
  arguments.insert(arguments.end(), hosts.begin(), hosts.end());
  MakeCerts(arguments);
}

}  // namespace psgd
