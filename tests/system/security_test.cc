// A run with certificates: which clients it accepts, and which it refuses.
#define CPPHTTPLIB_OPENSSL_SUPPORT
#include <httplib.h>
#include <signal.h>

#include <regex>

#include "net/wire_format.h"
#include "tests/certificates/certificates.h"
#include "tests/folders.h"
#include "tests/system/run_test.h"
#include "worker/control_client.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Security : public RunTest {
 protected:
  std::vector<std::string> Server(const std::vector<std::string>& more) const {
    return std::vector<std::string>{"ps-server", "--config",  SmallConfig(),
                                    "--port",    "0",         "--run-dir",
                                    Path("run"), "--tls-dir", certificates_.dir()} +
           more;
  }
  static std::vector<std::string> Worker(const std::string& server,
                                         const std::vector<std::string>& more) {
    return std::vector<std::string>{"ps-worker", "--cpu",    "--connect-deadline",
                                    "3s",        "--server", server} +
           more;
  }
  std::vector<std::string> As(const std::string& name) const {
    return {"--tls-ca",   certificates_.Path("ca.crt"),
            "--tls-cert", certificates_.Path(name + ".crt"),
            "--tls-key",  certificates_.Path(name + ".key")};
  }
  Ended Ctl(const std::string& command, const std::string& server,
            const std::vector<std::string>& more) const {
    return RunProgram(std::vector<std::string>{"ps-ctl", command, "--server", server} + more);
  }
  // Credentials with the certificate and key of `from`, which a program might refuse to load.
  static std::shared_ptr<const Credentials> Raw(const Certificates& ca, const Certificates& from,
                                                const std::string& name) {
    Credentials credentials;
    credentials.ca = ca.Read("ca.crt");
    credentials.certificate = from.Read(name + ".crt");
    credentials.key = from.Read(name + ".key");
    return std::make_shared<const Credentials>(credentials);
  }
  static absl::Status Join(const std::string& server,
                           std::shared_ptr<const Credentials> credentials) {
    ControlClient client({.server = server,
                          .deadline = Milliseconds(1500),
                          .interrupted = {},
                          .credentials = std::move(credentials)});
    JoinRequest request;
    request.set_name("intruder");
    request.set_protocol(kProtocolVersion);
    return client.Join(request).status();
  }

  const Certificates certificates_;
};

TEST_F(Security, TrainingGivesTheSameBitsOverEveryTransport) {
  const std::vector<std::string> alone = Sets({"cluster.workers=1", "consistency.staleness=0"});
  ASSERT_EQ(RunSmall("open", alone).code, 0);
  for (const std::string transport : {"zmq", "ipc", "grpc", "auto"}) {
    SCOPED_TRACE(transport);
    const Ended ended =
        RunSmall(transport, alone + Sets({"cluster.transport=" + transport}) +
                                std::vector<std::string>{"--tls-dir", certificates_.dir()});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_TRUE(Weights(transport) == Weights("open"));
  }
}

TEST_F(Security, WhoHasNoWorkersCertificateCannotJoin) {
  const Certificates other;
  Process server(Server({}));
  const std::string address = ServerOf(server);
  ASSERT_FALSE(address.empty()) << server.Err();
  const std::vector<std::string> admin = {"--tls-dir", certificates_.dir(), "--json"};

  const Ended none = RunProgram(Worker(address, {}));
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("Does it ask for certificates (--tls-dir)?"));
  const Ended foreign = RunProgram(Worker(address, {"--tls-dir", other.dir()}));
  EXPECT_EQ(foreign.code, 1);
  EXPECT_THAT(foreign.err, HasSubstr("no secure connection"));
  const Ended observer = RunProgram(Worker(address, As("observer")));
  EXPECT_EQ(observer.code, 1);
  EXPECT_THAT(observer.err, HasSubstr("role observer may not ask for Join"));
  // A server's certificate is not valid for a client, whatever its role.
  EXPECT_FALSE(Join(address, Raw(certificates_, certificates_, "server")).ok());
  // The client's authority is unknown to the server, although the client trusts the server.
  EXPECT_FALSE(Join(address, Raw(certificates_, other, "worker")).ok());

  // The same worker before and after its certificate expires.
  const Ended status = Ctl("status", address, admin);
  ASSERT_EQ(status.code, 0) << status.err;
  const Json before = Json::parse(status.out, nullptr, false);
  EXPECT_EQ(before["workers"].size(), 0u) << status.out;
  EXPECT_GE(std::stoi(before["refused"]["role"].get<std::string>()), 1);
  EXPECT_EQ(Join(address, Raw(certificates_, certificates_, "worker")).code(),
            absl::StatusCode::kInvalidArgument);  // the caller passed TLS: only a key is missing
  certificates_.LetExpire("worker");
  EXPECT_FALSE(absl::IsInvalidArgument(Join(address, Raw(certificates_, certificates_, "worker"))));
  const Ended expired = RunProgram(Worker(address, {"--tls-dir", certificates_.dir()}));
  EXPECT_EQ(expired.code, 2);
  EXPECT_THAT(expired.err, HasSubstr("has expired"));

  EXPECT_EQ(Json::parse(Ctl("status", address, admin).out, nullptr, false)["workers"].size(), 0u);
}

TEST_F(Security, RolesOfPsCtl) {
  Process server(Server({}));
  const std::string address = ServerOf(server);
  ASSERT_FALSE(address.empty()) << server.Err();
  EXPECT_EQ(Ctl("status", address, As("observer")).code, 0);
  const Ended drain = Ctl("drain", address, As("observer"));
  EXPECT_EQ(drain.code, 1);
  EXPECT_THAT(drain.err, HasSubstr("role observer may not ask for Drain"));
  const Ended exported = Ctl(
      "export", address, As("worker") + std::vector<std::string>{"--out", Path("w.safetensors")});
  EXPECT_EQ(exported.code, 1);
  EXPECT_THAT(exported.err, HasSubstr("may not ask for Weights"));
  EXPECT_EQ(Ctl("status", address, {}).code, 1);
  EXPECT_EQ(Ctl("drain", address, {"--tls-dir", certificates_.dir()}).code, 0);
  EXPECT_EQ(server.Wait().code, 3);
}

TEST_F(Security, TheMetricsPageAsksForACertificate) {
  Process server(Server({"--http", "0"}));
  ASSERT_TRUE(server.WaitFor("metrics: https://")) << server.Err();
  const std::string text = server.Out();
  std::smatch found;
  ASSERT_TRUE(std::regex_search(text, found, std::regex("https://([0-9.]+):([0-9]+)/metrics")));
  signal(SIGPIPE, SIG_IGN);  // from connections that the page closes
  const std::string host = found[1];
  const int port = std::stoi(found[2]);

  httplib::Client plain(host, port);
  const auto unencrypted = plain.Get("/metrics");
  EXPECT_TRUE(!unencrypted || unencrypted->body.find("psgd_") == std::string::npos);

  httplib::SSLClient anonymous(host, port);
  anonymous.set_ca_cert_path(certificates_.Path("ca.crt").c_str());
  EXPECT_FALSE(anonymous.Get("/metrics"));

  const Certificates other;
  httplib::SSLClient foreign(host, port, other.Path("admin.crt"), other.Path("admin.key"));
  foreign.set_ca_cert_path(certificates_.Path("ca.crt").c_str());
  EXPECT_FALSE(foreign.Get("/metrics"));

  httplib::SSLClient observer(host, port, certificates_.Path("observer.crt"),
                              certificates_.Path("observer.key"));
  observer.set_ca_cert_path(certificates_.Path("ca.crt").c_str());
  const auto page = observer.Get("/metrics");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_THAT(page->body, HasSubstr("psgd_epoch"));

  // The dashboard uses the same roles: an observer sees it, an admin may also change the run.
  const auto dashboard = observer.Get("/");
  ASSERT_TRUE(dashboard);
  EXPECT_EQ(dashboard->status, 200);
  const httplib::Headers ours = {{"X-Psgd", "control"}};
  const auto rate = [&](httplib::SSLClient& client) {
    return client.Post("/api/learning-rate", ours, "{\"value\": 0.01}", "application/json");
  };
  const auto refused = rate(observer);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 403);
  EXPECT_THAT(refused->body, HasSubstr("a certificate of role observer may not ask for SetHyper"));
  httplib::SSLClient admin(host, port, certificates_.Path("admin.crt"),
                           certificates_.Path("admin.key"));
  admin.set_ca_cert_path(certificates_.Path("ca.crt").c_str());
  const auto changed = rate(admin);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->status, 200) << changed->body;
  const auto from_elsewhere =
      admin.Post("/api/learning-rate", "{\"value\": 0.01}", "application/json");
  ASSERT_TRUE(from_elsewhere);
  EXPECT_EQ(from_elsewhere->status, 403);
}

TEST_F(Security, APublicAddressAsksForIt) {
  const Ended open = RunProgram({"ps-server", "--config", SmallConfig(), "--port", "0", "--run-dir",
                                 Path("run"), "--bind", "0.0.0.0"});
  EXPECT_EQ(open.code, 2);
  EXPECT_THAT(open.err, AllOf(HasSubstr("make-certs.sh"), HasSubstr("--insecure")));
  Process secured(Server({"--bind", "0.0.0.0"}));
  EXPECT_NE(ServerOf(secured), "") << secured.Err();
}

TEST_F(Security, CertificatesThatDoNotFitAreExplained) {
  const Ended client = RunProgram(
      std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--run-dir", Path("run")} +
      As("admin"));
  EXPECT_EQ(client.code, 2);
  EXPECT_THAT(client.err, HasSubstr("role admin, not server"));
  const Ended half =
      RunProgram({"ps-worker", "--cpu", "--server", "127.0.0.1:1", "--tls-cert", "x"});
  EXPECT_EQ(half.code, 2);
  EXPECT_THAT(half.err, HasSubstr("--tls-ca"));
  const Ended missing = RunProgram(Worker("127.0.0.1:1", {"--tls-dir", Path("none")}));
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("none/ca.crt"));
}

TEST_F(Security, ACertificateThatIsKeptSaysWhichNamesItLacks) {
  const Certificates certificates({"head-node", "10.0.0.1", "fd00::1"});
  const std::string script = SourceDir() + "/scripts/make-certs.sh";
  const Ended same = RunProgram({script, certificates.dir(), "head-node", "10.0.0.1", "fd00::1"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(same.out, Not(HasSubstr("it is not for")));
  const Ended other =
      RunProgram({script, certificates.dir(), "head-node", "tail-node", "10.0.0.2"});
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("it is not for tail-node 10.0.0.2; one that is for these names: "
                                   "scripts/make-certs.sh --renew server " +
                                   certificates.dir() + " head-node tail-node 10.0.0.2\n"));
}

TEST_F(Security, NamesOfWorkersAreChecked) {
  Process server(std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0",
                                          "--run-dir", Path("run")});
  const std::string address = ServerOf(server);
  for (const std::string name : {"../../etc/passwd", "a b", ""}) {
    ControlClient client(
        {.server = address, .deadline = Milliseconds(3000), .interrupted = {}, .credentials = {}});
    JoinRequest request;
    request.set_name(name);
    request.set_protocol(kProtocolVersion);
    EXPECT_EQ(client.Join(request).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(RunProgram(Worker(address, {"--name", "no/path"})).code, 2);
  EXPECT_THAT(server.Err(), Not(HasSubstr("passwd")));
}

}  // namespace
}  // namespace psgd
