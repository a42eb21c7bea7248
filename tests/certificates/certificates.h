// A folder of certificates, as scripts/make-certs.sh makes it.
#pragma once

#include <string>
#include <vector>

namespace psgd {

// Gone with its folder at the end.
class Certificates {
 public:
  explicit Certificates(const std::vector<std::string>& hosts = {});
  ~Certificates();
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  const std::string& dir() const { return dir_; }
  std::string Path(const std::string& file) const { return dir_ + "/" + file; }
  std::string Read(const std::string& file) const;
  // One that has expired by the time this returns takes the role's place.
  void LetExpire(const std::string& role) const;
  // For those names; none: for those that it had.
  void RenewServers(const std::vector<std::string>& hosts = {}) const;

 private:
  std::string dir_;
};

}  // namespace psgd
