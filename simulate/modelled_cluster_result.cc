// The part of ModelledCluster that says what came of it.
#include <algorithm>
#include <cmath>

#include "simulate/modelled_cluster.h"

namespace psgd::sim {
namespace {

double UtilisationOf(const std::unique_ptr<SharedResource>& resource) {
  return resource == nullptr ? 0 : resource->Utilisation();
}

}  // namespace

Prediction ModelledCluster::Result() const {
  Prediction result;
  result.workers = config_.cluster().workers();
  result.shards = config_.cluster().shards();
  result.batch = config_.data().batch();
  result.clocks = static_cast<uint64_t>(config_.train().max_steps());
  result.simulated_shards = groups_.size();
  result.deaths = deaths_;
  result.simulated_seconds = Seconds(queue_.now() - start_);
  AddTimes(&result);
  AddShares(&result);
  for (const auto& worker : workers_) {
    result.pull_staleness.Merge(worker->stats().pull_staleness);
    result.resent += worker->stats().resent;
  }
  for (const auto& shard : shards_) result.push_staleness.Merge(shard->stats().push_staleness);
  return result;
}

void ModelledCluster::AddTimes(Prediction* result) const {
  // Without the first steps, which find the links empty, and the last, when some have nothing left
  // to do. Whole clocks: synchronous workers end theirs together.
  const auto workers = static_cast<size_t>(result->workers);
  const size_t clocks = step_ends_.size() / workers, edge = std::max<size_t>(1, clocks / 10);
  if (clocks < 3) return;
  const size_t first = edge * workers - 1, last = (clocks - edge) * workers - 1;
  const double seconds = Seconds(step_ends_[last] - step_ends_[first]);
  const double batch = result->batch;
  result->samples_per_second =
      seconds <= 0 ? 0 : static_cast<double>(last - first) * batch / seconds;

  ModelledWorker::Times sum;
  for (const auto& worker : workers_) {
    sum.steps += worker->times().steps;
    sum.compute += worker->times().compute;
    sum.encode += worker->times().encode;
    sum.wait += worker->times().wait;
  }
  const double n = static_cast<double>(std::max<uint64_t>(sum.steps, 1));
  result->compute = sum.compute / n;
  result->encode = sum.encode / n;
  result->wait = sum.wait / n;
  result->step =
      result->samples_per_second == 0 ? 0 : batch * result->workers / result->samples_per_second;
  result->bytes_pushed_a_step = pushed_ / n;
  result->bytes_pulled_a_step = pulled_ / n;

  const Config& asked = workload_.config;
  const double batches = static_cast<double>(workload_.samples / std::max(1, asked.data().batch()));
  double run_steps = batches * asked.train().epochs();
  double epochs = asked.train().epochs();
  if (asked.train().max_steps() > 0) {
    const double most = static_cast<double>(asked.train().max_steps()) * result->workers;
    if (most < run_steps) {
      epochs = std::ceil(most / std::max(1.0, batches));
      run_steps = most;
    }
  }
  result->bytes_pushed = result->bytes_pushed_a_step * run_steps;
  result->bytes_pulled = result->bytes_pulled_a_step * run_steps;
  if (result->samples_per_second == 0) return;
  // Workers that share a host share it as they start, too.
  const SimWorker& worker = model().worker();
  const double crowd =
      model().network().together() ? std::max(1.0, result->workers / model().server().cores()) : 1;
  result->run_seconds = worker.start() * crowd + run_steps * batch / result->samples_per_second +
                        epochs * worker.evaluation();
  result->run_samples_per_second = run_steps * batch / result->run_seconds;
}

void ModelledCluster::AddShares(Prediction* result) const {
  for (const auto& shard : shards_) {
    result->shard_busy = std::max(result->shard_busy, shard->busy() / result->simulated_seconds);
  }
  for (const ServerHost& host : hosts_) {
    result->server_link_in = std::max(result->server_link_in, UtilisationOf(host.in));
    result->server_link_out = std::max(result->server_link_out, UtilisationOf(host.out));
    result->processors = std::max(result->processors, UtilisationOf(host.processors));
  }
  const auto workers = static_cast<double>(links_.size());
  for (const WorkerLinks& links : links_) {
    result->worker_link_in += UtilisationOf(links.down) / workers;
    result->worker_link_out += UtilisationOf(links.up) / workers;
  }
}

}  // namespace psgd::sim
