#include "simulate/modelled_shard.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/wire_format.h"

namespace psgd::sim {
namespace {

constexpr float kNothing = 0;

// What moves one weight by nothing.
Bytes ThinPayload() { return Bytes::Unowned(AsBytes({&kNothing, 1})); }

ShardOptions ThinOptions(uint32_t index, const Config& config) {
  ShardOptions options;
  options.shard = index;
  options.config = config;
  // Weights are not what is simulated; how they would travel is in the traffic.
  options.config.mutable_compression()->Clear();
  options.config.mutable_optimizer()->mutable_sgd()->set_momentum(0);
  options.config.mutable_consistency()->clear_compensation();
  return options;
}

// Each slice is a parameter of one weight.
InstallModel ThinModel(const Placement& placement, const HyperParameters& hyper) {
  auto model = std::make_shared<ModelSpec>();
  auto thin = std::make_shared<Placement>();
  for (const SliceSpec& slice : placement.slices()) {
    ParameterSpec* parameter = model->add_parameters();
    parameter->set_name(absl::StrCat("slice-", thin->slices_size()));
    parameter->add_shape(1);
    parameter->mutable_initializer()->mutable_constant();
    SliceSpec* only = thin->add_slices();
    only->set_parameter(static_cast<uint32_t>(thin->slices_size() - 1));
    only->set_count(1);
    only->set_shard(slice.shard());
  }
  *thin->mutable_endpoints() = placement.endpoints();
  return {std::move(model), std::move(thin), nullptr, hyper};
}

}  // namespace

double WireBytes(const Message& message) {
  const auto size = EncodedSize(message, SIZE_MAX);
  return size.ok() ? static_cast<double>(*size) : 0;
}

ModelledShard::ModelledShard(EventQueue* queue, uint32_t index, const Config& config,
                             const Traffic& traffic, const ShardCosts& costs, ShardReply reply)
    : queue_(queue),
      traffic_(traffic),
      costs_(costs),
      reply_(std::move(reply)),
      core_(ThinOptions(index, config)) {}

absl::Status ModelledShard::Execute(const ShardCommand& command) {
  Outbox out;
  const auto* install = std::get_if<InstallModel>(&command);
  PSGD_RETURN_IF_ERROR(install == nullptr
                           ? core_.Execute(command, &out)
                           : core_.Execute(ThinModel(traffic_.placement, install->hyper), &out));
  Answer(std::move(out));
  Work();
  return absl::OkStatus();
}

void ModelledShard::Receive(PeerId from, std::shared_ptr<Message> message, double bytes) {
  if (message->header.has_push()) {
    for (PushPart& part : *message->header.mutable_push()->mutable_parts())
      part.set_codec(CODEC_NONE);
  }
  for (Bytes& payload : message->payloads) payload = ThinPayload();
  tasks_.push_back(
      {costs_.message + costs_.byte * bytes, [this, from, message = std::move(message)] {
         Outbox out;
         core_.OnMessage(from, std::move(*message), &out);
         core_.Tick(queue_->now(), &out);
         WatchGrace();
         Answer(std::move(out));
       }});
  Work();
}

void ModelledShard::WatchGrace() {
  const auto closes = core_.grace().Ends();
  if (!closes || closes == watched_) return;
  watched_ = closes;
  queue_->After(*closes - queue_->now(), [this] {
    Outbox out;
    core_.Tick(queue_->now(), &out);
    Answer(std::move(out));
    Work();
  });
}

void ModelledShard::Answer(Outbox out) {
  for (auto outgoing = out.rbegin(); outgoing != out.rend(); ++outgoing) {
    Message& message = outgoing->message;
    if (message.header.has_pull_reply()) {
      PullReply* reply = message.header.mutable_pull_reply();
      for (int i = 0; i < reply->parts_size(); ++i) {
        const SliceBytes& bytes = traffic_.bytes[reply->parts(i).slice()];
        reply->mutable_parts(i)->set_codec(bytes.pull_codec);
        message.payloads[i] = HollowPayload(bytes.pull);
      }
    }
    const double bytes = WireBytes(message);
    tasks_.push_front({costs_.byte * bytes, [this, bytes, to = outgoing->to,
                                             shared = std::make_shared<const Message>(std::move(
                                                 message))] { reply_(to, shared, bytes); }});
  }
}

void ModelledShard::Work() {
  if (working_ || tasks_.empty()) return;
  working_ = true;
  task_ = std::move(tasks_.front());
  tasks_.pop_front();
  since_ = queue_->now();
  const double waited_for = task_.seconds * (1 - costs_.beside);
  if (costs_.processors == nullptr) {
    queue_->After(Duration(static_cast<int64_t>(waited_for * 1e9)), [this] { Done(); });
    return;
  }
  costs_.processors->Run(waited_for, costs_.times, [this] { Done(); });
  const double beside = task_.seconds - waited_for;
  if (beside > 0) costs_.processors->Run(beside, costs_.times, nullptr);
}

void ModelledShard::Done() {
  busy_ += Seconds(queue_->now() - since_);
  const Task task = std::move(task_);
  task.done();
  working_ = false;
  Work();
}

}  // namespace psgd::sim
