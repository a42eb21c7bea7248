#include "train/node.h"

#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

absl::StatusOr<bool> ReplicasAreOneWorker(const TrainerOptions& options) {
  ControlClient client(
      {.server = options.server,
       .find = options.find_servers,
       .deadline = options.connect_deadline,
       .interrupted = [&]() -> absl::Status {
         if (options.stops == nullptr || *options.stops == 0) {
           return absl::OkStatus();
         }
         return absl::CancelledError("stopped");
       },
       .credentials = options.credentials,
       .on_wait = [&](const std::string& text) { options.log->warn("{}", text); }});
  PSGD_ASSIGN_OR_RETURN(const StatusReply status, client.Status(StatusRequest()));
  return status.config().node().reduce() != NodeConfig::NONE;
}

}  // namespace

std::vector<TrainerOptions> WorkersOf(const TrainerOptions& all) {
  std::vector<TrainerOptions> each(
      all.gpus.empty() ? static_cast<size_t>(all.replicas) : all.gpus.size(), all);
  const DataOpener open_data = OpenOnce(all.open_data);
  for (size_t i = 0; i < each.size(); ++i) {
    each[i].replicas = 1;
    each[i].open_data = open_data;
    each[i].workers_here = static_cast<int>(each.size());
    if (!all.gpus.empty()) each[i].gpus = {all.gpus[i]};
    absl::StrAppend(&each[i].name, "-", i);
  }
  return each;
}

absl::Status TrainNode(const TrainerOptions& options) {
  if (options.replicas == 1 && options.gpus.size() <= 1) return Trainer(options).Run();
  const absl::StatusOr<bool> together = ReplicasAreOneWorker(options);
  if (absl::IsCancelled(together.status())) return absl::OkStatus();
  PSGD_RETURN_IF_ERROR(together.status());
  if (*together) return Trainer(options).Run();

  const std::vector<TrainerOptions> each = WorkersOf(options);
  std::vector<absl::Status> results(each.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < each.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = Trainer(each[i]).Run(); });
  }
  for (std::thread& thread : threads) thread.join();
  absl::Status first;
  for (size_t i = 0; i < each.size(); ++i) first.Update(Annotate(results[i], each[i].name));
  return first;
}

}  // namespace psgd
