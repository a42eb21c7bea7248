#include "net/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/certificates/certificates.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CredentialsTest : public testing::Test {
 protected:
  absl::Status Load(const std::string& name) const {
    return LoadCredentials(CredentialFilesIn(certificates_.dir(), name)).status();
  }
  void ExpectRefused(const CredentialFiles& files, const std::string& why) const {
    const absl::Status status = LoadCredentials(files).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsNotFound(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  void Write(const std::string& file, const std::string& text) const {
    std::ofstream(certificates_.Path(file)) << text;
  }

  const Certificates certificates_;
};

TEST_F(CredentialsTest, EachRoleIsRead) {
  for (const auto& [name, role] :
       {std::pair("server", Role::kServer), std::pair("worker", Role::kWorker),
        std::pair("observer", Role::kObserver), std::pair("admin", Role::kAdmin)}) {
    const auto credentials = LoadCredentials(CredentialFilesIn(certificates_.dir(), name));
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    EXPECT_EQ((*credentials)->role, role);
    EXPECT_EQ(RoleName(role), name);
    EXPECT_EQ((*credentials)->key, certificates_.Read(std::string(name) + ".key"));
    EXPECT_EQ(*RoleOfCertificate((*credentials)->certificate), role);
  }
}

TEST_F(CredentialsTest, FilesThatAreMissingOrSomethingElse) {
  ExpectRefused(CredentialFilesIn(certificates_.dir(), "nobody"), "nobody.crt");
  ExpectRefused(CredentialFilesIn(certificates_.dir() + "/none", "worker"), "none/ca.crt");
  Write("worker.crt", "hello");
  ExpectRefused(CredentialFilesIn(certificates_.dir(), "worker"), "holds no certificate");
  Write("observer.key", "hello");
  ExpectRefused(CredentialFilesIn(certificates_.dir(), "observer"), "holds no private key");
}

TEST_F(CredentialsTest, AKeyOfAnotherCertificate) {
  ExpectRefused({certificates_.Path("ca.crt"), certificates_.Path("worker.crt"),
                 certificates_.Path("admin.key")},
                "is not the key of");
}

TEST_F(CredentialsTest, AKeyThatOthersMayRead) {
  chmod(certificates_.Path("worker.key").c_str(), 0644);
  ExpectRefused(CredentialFilesIn(certificates_.dir(), "worker"), "chmod 600");
  chmod(certificates_.Path("worker.key").c_str(),
        0640);  // the owner may let a group read the key
  EXPECT_TRUE(Load("worker").ok()) << Load("worker");
}

TEST_F(CredentialsTest, ExpiredAndOfAnotherAuthority) {
  certificates_.LetExpire("worker");
  ExpectRefused(CredentialFilesIn(certificates_.dir(), "worker"), "has expired");
  const Certificates other;
  ExpectRefused(
      {other.Path("ca.crt"), certificates_.Path("admin.crt"), certificates_.Path("admin.key")},
      "is not one that");
}

TEST_F(CredentialsTest, NamesOfAServer) {
  const Certificates named({"head-node", "10.1.2.3"});
  const auto credentials = LoadCredentials(CredentialFilesIn(named.dir(), "server"));
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  for (const char* host : {"head-node", "10.1.2.3", "localhost", "127.0.0.1"}) {
    EXPECT_TRUE(CredentialsAreFor(**credentials, host)) << host;
  }
  for (const char* host : {"other-node", "10.1.2.4", "127.0.0.2", "psgd server", ""}) {
    EXPECT_FALSE(CredentialsAreFor(**credentials, host)) << host;
  }
}

TEST_F(CredentialsTest, ARenewedServerKeepsItsNames) {
  const Certificates named({"head-node", "10.1.2.3", "fe80::1"});
  const auto is_for = [&](const std::string& host) {
    const auto credentials = LoadCredentials(CredentialFilesIn(named.dir(), "server"));
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return credentials.ok() && CredentialsAreFor(**credentials, host);
  };
  const std::string before = named.Read("server.crt");
  named.RenewServers();
  EXPECT_NE(named.Read("server.crt"), before);
  for (const char* host : {"head-node", "10.1.2.3", "fe80::1", "localhost", "127.0.0.1", "::1"}) {
    EXPECT_TRUE(is_for(host)) << host;
  }
  named.RenewServers({"other-node"});
  EXPECT_TRUE(is_for("other-node"));
  EXPECT_FALSE(is_for("head-node"));
}

TEST_F(CredentialsTest, WhatIsNoCertificateHasNoRole) {
  EXPECT_FALSE(RoleOfCertificate("").ok());
  EXPECT_FALSE(
      RoleOfCertificate("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").ok());
  EXPECT_THAT(std::string(RoleOfCertificate(certificates_.Read("ca.crt")).status().message()),
              HasSubstr("organisational unit"));
}

}  // namespace
}  // namespace psgd
