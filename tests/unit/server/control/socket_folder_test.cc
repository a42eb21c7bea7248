#include "server/control/socket_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

namespace psgd {
namespace {

namespace fs = std::filesystem;

// A folder with a server's socket.
class Served {
 public:
  Served() : folder_(mkdtemp(pattern_)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, Path().c_str());
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(socket_, 1), 0);
  }
  ~Served() {
    Die();
    fs::remove_all(folder_);
  }
  std::string Path() const { return folder_ + "/shard-0.sock"; }
  void Die() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }
  // Makes the socket look hours old.
  void GrowOld() const {
    const timespec then{1'000'000'000, 0};
    const timespec both[2] = {then, then};
    EXPECT_EQ(utimensat(AT_FDCWD, Path().c_str(), both, AT_SYMLINK_NOFOLLOW), 0);
  }
  bool IsThere() const { return fs::exists(folder_); }
  const std::string& folder() const { return folder_; }

 private:
  char pattern_[17] = "/tmp/psgd-XXXXXX";
  const std::string folder_;
  int socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

TEST(SocketFolder, WhatAKilledServerLeftGoesWithTheNext) {
  Served lives, dead, fresh, kept;
  lives.GrowOld();
  dead.Die();
  dead.GrowOld();
  fresh.Die();  // or it is about to listen
  kept.Die();
  kept.GrowOld();
  const std::string other = kept.folder() + "/notes";
  ASSERT_EQ(mkdir(other.c_str(), S_IRWXU), 0);
  const auto made = SocketFolder::Create();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(dead.IsThere());
  EXPECT_TRUE(lives.IsThere());
  EXPECT_TRUE(fresh.IsThere());
  EXPECT_TRUE(kept.IsThere()) << "something else is there";
  EXPECT_TRUE(fs::exists(kept.Path()));
}

TEST(SocketFolder, GoesWithItsServer) {
  std::string path;
  {
    const auto made = SocketFolder::Create();
    ASSERT_TRUE(made.ok()) << made.status();
    path = made->path();
    struct stat found;
    ASSERT_EQ(stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0700u);
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace psgd
