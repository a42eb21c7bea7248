#include "server/metrics_page.h"

// As Debian's library is built; its header declares what goes over TLS only then.
#define CPPHTTPLIB_OPENSSL_SUPPORT
#include <httplib.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "common/metrics.h"
#include "net/tls_context.h"
#include "proto/input_stall.h"

namespace psgd {
namespace {

void RenderShards(const StatusReply& status, PrometheusText* text) {
  const auto label = [](const ShardStatus& s) { return absl::StrCat("shard=\"", s.shard(), "\""); };
  for (const ShardStatus& s : status.shards()) {
    text->Counter("psgd_pushes_total", "Pushes absorbed.", label(s), s.pushes());
  }
  for (const ShardStatus& s : status.shards()) {
    text->Counter("psgd_pulls_total", "Pulls answered.", label(s), s.pulls());
  }
  for (const ShardStatus& s : status.shards()) {
    text->Counter("psgd_duplicates_total", "Repeated pushes, acknowledged and not applied again.",
                  label(s), s.duplicates());
  }
  for (const ShardStatus& s : status.shards()) {
    for (const auto& [reason, count] : s.refused()) {
      text->Counter("psgd_refused_total", "Messages refused, by reason.",
                    absl::StrCat(label(s), ",reason=\"", PrometheusLabel(reason), "\""), count);
    }
  }
  for (const ShardStatus& s : status.shards()) {
    text->Gauge("psgd_shard_bytes", "Weights that the shard holds.", label(s), s.bytes());
  }
  for (const ShardStatus& s : status.shards()) {
    text->Gauge("psgd_waiting_pulls", "Pulls held back by the staleness bound.", label(s),
                s.waiting_pulls());
  }
  for (const ShardStatus& s : status.shards()) {
    text->Gauge("psgd_journal_bytes", "Journal since the shard's last image.", label(s),
                s.journal_bytes());
  }
  for (const ShardStatus& s : status.shards()) {
    text->Gauge("psgd_journal_stalled", "1: the shard waits, since its journal cannot be written.",
                label(s), s.stalled().empty() ? 0 : 1);
  }
  for (const ShardStatus& s : status.shards()) {
    text->Gauge("psgd_slowest_clock", "Steps of the slowest live worker.", label(s),
                s.slowest_clock());
  }
}

void RenderWorkers(const StatusReply& status, PrometheusText* text) {
  const auto label = [](const WorkerStatus& w) {
    return absl::StrCat("worker=\"", w.key().worker(), "\",name=\"", PrometheusLabel(w.name()),
                        "\"");
  };
  for (const WorkerStatus& w : status.workers()) {
    text->Gauge("psgd_worker_live", "1 while the worker holds its lease.", label(w), w.live());
  }
  for (const WorkerStatus& w : status.workers()) {
    text->Gauge("psgd_worker_clock", "Steps the worker has finished.", label(w), w.clock());
  }
  for (const WorkerStatus& w : status.workers()) {
    text->Gauge("psgd_worker_samples_per_second", "Training speed.", label(w),
                w.samples_per_second());
  }
  for (const WorkerStatus& w : status.workers()) {
    text->Gauge("psgd_worker_input_stall",
                "Share of the worker's time spent waiting for data, last report.", label(w),
                w.input_stall());
  }
  for (const WorkerStatus& w : status.workers()) {
    text->Gauge("psgd_worker_residual_norm", "Of what the worker's codecs left behind, last report.",
                label(w), w.residual_norm());
  }
}

}  // namespace

std::string RenderPrometheus(const StatusReply& status) {
  const std::vector<uint64_t> bounds = {0, 1, 2, 4, 8, 16, 32, 64, 128};
  const WorkerReport& total = status.total();
  PrometheusText text;
  text.Gauge("psgd_epoch", "Progress of the slowest live worker, in epochs.", "", status.epoch());
  text.Gauge("psgd_train_loss", "Mean training loss of the last reports.", "",
             status.train_loss());
  text.Gauge("psgd_train_accuracy", "Training accuracy of the last reports.", "",
             status.train_accuracy());
  if (!status.evaluations().empty()) {
    const EvalResult& last = *status.evaluations().rbegin();
    text.Gauge("psgd_test_accuracy", "Accuracy of the last evaluation.", "", last.accuracy());
    text.Gauge("psgd_test_loss", "Loss of the last evaluation.", "", last.loss());
    for (const auto& [name, value] : last.measures()) {
      text.Gauge("psgd_test_" + name, "Of the last evaluation.", "", value);
    }
  }
  text.Gauge("psgd_samples_per_second", "Training speed of all workers.", "",
             status.samples_per_second());
  text.Gauge("psgd_learning_rate", "Before the schedule.", "", status.hyper().learning_rate());
  text.Counter("psgd_steps_total", "Steps of all workers.", "", total.steps());
  text.Counter("psgd_samples_total", "Samples trained on.", "", total.samples());
  text.Counter("psgd_pushed_bytes_total", "Sent by workers, headers included.", "",
               total.bytes_pushed());
  text.Counter("psgd_pulled_bytes_total", "Received by workers, headers included.", "",
               total.bytes_pulled());
  text.Counter("psgd_pushed_dense_bytes_total", "What pushes would have been as fp32.", "",
               total.bytes_pushed_dense());
  text.Counter("psgd_pulled_dense_bytes_total", "What pulls would have been as fp32.", "",
               total.bytes_pulled_dense());
  text.Counter("psgd_resent_total", "Messages that workers sent again.", "", total.resent());
  text.Gauge("psgd_input_stall", "Share of the workers' time spent waiting for data.", "",
             InputStall(total));
  text.Gauge("psgd_residual_norm", "Of what the codecs of all workers left behind, last reports.", "",
             total.residual_norm());
  text.Gauge("psgd_residual_norm_lost", "Of what ended with workers before they could push it.", "",
             total.residual_norm_lost());
  text.Counter("psgd_batches_repeated_total", "Batches of workers that were lost, dealt again.", "",
               status.batches_repeated());
  text.Counter("psgd_batches_lost_total",
               "Batches of workers that were lost when their epoch was over: not dealt again.", "",
               status.batches_lost());
  text.Histogram("psgd_pull_staleness", "Clocks that a pulling worker led the slowest by.", "",
                 CountHistogram::FromCounts(total.pull_staleness()), bounds);
  for (const ShardStatus& shard : status.shards()) {
    text.Histogram("psgd_push_staleness", "Versions that a slice gained between pull and push.",
                   absl::StrCat("shard=\"", shard.shard(), "\""), CountHistogram::FromCounts(shard.push_staleness()),
                   bounds);
  }
  for (const auto& [reason, count] : status.refused()) {
    text.Counter("psgd_calls_refused_total", "Calls of the control plane refused, by reason.",
                 absl::StrCat("reason=\"", PrometheusLabel(reason), "\""), count);
  }
  RenderShards(status, &text);
  RenderWorkers(status, &text);
  return text.Text();
}

struct MetricsPage::Impl {
  std::unique_ptr<httplib::Server> server;
  std::thread thread;
  int port = 0;
};

absl::StatusOr<std::unique_ptr<MetricsPage>> MetricsPage::Start(const MetricsPageOptions& options) {
  const auto& [host, port, status, credentials, guard] = options;
  auto impl = std::make_unique<Impl>();
  if (credentials == nullptr) {
    impl->server = std::make_unique<httplib::Server>();
  } else {
    impl->server = std::make_unique<httplib::SSLServer>([c = credentials](SSL_CTX& context) {
      return ConfigureTlsServer(*c, &context);
    });
  }
  if (!impl->server->is_valid()) {
    return absl::InvalidArgumentError("the certificate of the /metrics page could not be used");
  }
  impl->server->set_payload_max_length(1 << 16);
  // Without the library's SO_REUSEPORT, by which two servers would share a port unnoticed.
  impl->server->set_socket_options([](socket_t socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  impl->server->Get("/metrics", [options](const httplib::Request& request,
                                          httplib::Response& response) {
    if (options.credentials != nullptr) {
      const absl::Status allowed = options.guard->CheckRole(TlsPeerRole(request.ssl), "/metrics");
      if (!allowed.ok()) {
        response.status = 403;
        response.set_content(std::string(allowed.message()) + "\n", "text/plain");
        return;
      }
    }
    const auto now = options.status();
    if (!now.ok()) {
      response.status = 503;
      response.set_content(std::string(now.status().message()) + "\n", "text/plain");
      return;
    }
    response.set_content(RenderPrometheus(*now), "text/plain; version=0.0.4");
  });
  impl->port = port == 0 ? impl->server->bind_to_any_port(host)
                         : (impl->server->bind_to_port(host, port) ? port : -1);
  if (impl->port <= 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", host, ":", port,
                     " for /metrics; is another program using this port? Choose another with "
                     "--http, or do without the page"));
  }
  impl->thread = std::thread([server = impl->server.get()] { server->listen_after_bind(); });
  // stop() before the loop runs would be lost.
  while (!impl->server->is_running()) std::this_thread::yield();
  return std::unique_ptr<MetricsPage>(new MetricsPage(std::move(impl)));
}

MetricsPage::MetricsPage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

MetricsPage::~MetricsPage() {
  impl_->server->stop();
  impl_->thread.join();
}

int MetricsPage::port() const { return impl_->port; }

}  // namespace psgd
