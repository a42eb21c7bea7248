// The C interface of include/psgd.h: checks arguments, finds the client, and turns statuses and
// exceptions into codes and texts.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/call_errors.h"
#include "client/client.h"
#include "client/clients.h"
#include "common/names.h"
#include "include/psgd.h"
#include "net/credentials.h"
#include "optimizers/optimizer.h"
#include "proto/local_steps.h"
#include "proto/measure_of.h"

namespace psgd {
namespace {

constexpr int32_t kMostDimensions = 8;
constexpr int64_t kLongestConnect = int64_t{24} * 3600 * 1000;  // milliseconds
constexpr uint32_t kMostEpochsOfARun = 1u << 30;

// The handles are numbers of this table: C has no other place for it. Never destroyed, as threads
// may still call while the process exits.
Clients& AllClients() {
  static Clients* const clients = new Clients;
  return *clients;
}

std::string& LastError() {
  thread_local std::string text;
  return text;
}

psgd_status CodeOf(const absl::Status& status) {
  if (IsOutOfOrder(status)) return PSGD_STATE;
  if (WantsState(status)) return PSGD_SAVE;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return PSGD_OK;
    case absl::StatusCode::kAborted:
      return PSGD_AGAIN;
    case absl::StatusCode::kCancelled:
      return PSGD_OVER;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return PSGD_INVALID;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kResourceExhausted:
      return PSGD_REFUSED;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return PSGD_UNAVAILABLE;
    case absl::StatusCode::kOutOfRange:
      return PSGD_DIVERGED;
    case absl::StatusCode::kDataLoss:
      return PSGD_DATA_LOSS;
    default:
      return PSGD_INTERNAL;
  }
}

psgd_status Said(const char* call, const absl::Status& status) {
  if (status.ok()) return PSGD_OK;
  LastError() = absl::StrCat(call, ": ", status.message());
  return CodeOf(status);
}

// Nothing leaves `body` but its status.
template <typename Body>
psgd_status Guarded(const char* call, const Body& body) noexcept {
  try {
    return Said(call, body());
  } catch (const std::bad_alloc&) {
    return Said(call, absl::InternalError("out of memory"));
  } catch (const std::exception& error) {
    return Said(call, absl::InternalError(error.what()));
  } catch (...) {
    return Said(call, absl::InternalError("an unknown exception"));
  }
}

absl::Status NoClient(uint64_t handle) {
  if (AllClients().WasClosed(handle)) {
    return InvalidArgumentError("client ", handle,
                                " has left the run; join again for another client");
  }
  return InvalidArgumentError("there is no client ", handle, "; psgd_join gives clients");
}

template <typename Body>
psgd_status WithClient(const char* call, uint64_t handle, const Body& body) noexcept {
  return Guarded(call, [&]() -> absl::Status {
    const std::shared_ptr<OpenClient> open = AllClients().Find(handle);
    if (open == nullptr) return NoClient(handle);
    std::lock_guard lock(open->mutex);
    if (open->client == nullptr) return NoClient(handle);
    const auto kept = open->client->KeepThreadDevice();
    return body(*open->client);
  });
}

absl::Status CheckPointer(const void* pointer, const char* what) {
  if (pointer != nullptr) return absl::OkStatus();
  return InvalidArgumentError(what, " is a null pointer");
}

// A struct of the caller, of this version or an earlier one, whose fields after `size` it lacks.
template <typename Struct>
absl::StatusOr<Struct> TakeIn(const Struct* given, const char* what) {
  PSGD_RETURN_IF_ERROR(CheckPointer(given, what));
  size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < sizeof size || size > 4096) {
    return InvalidArgumentError(what, "->size is ", size, "; set it to sizeof *", what);
  }
  Struct taken{};
  std::memcpy(&taken, given, std::min(size, sizeof taken));
  return taken;
}

template <typename Struct>
void GiveOut(const Struct& made, size_t size, Struct* out) {
  Struct sized = made;
  sized.size = size;
  std::memcpy(out, &sized, std::min(size, sizeof sized));
}

Time Until(int32_t timeout_ms) {
  return timeout_ms < 0 ? Time::max() : SteadyNow() + Milliseconds(timeout_ms);
}

std::string TextOr(const char* text, const std::string& otherwise) {
  return text == nullptr || *text == '\0' ? otherwise : text;
}

std::string OwnName() {
  char host[65] = {};
  (void)gethostname(host, sizeof host - 1);
  std::string name = absl::StrCat(absl::string_view(host).substr(0, 40), "-", getpid());
  std::ranges::replace_if(
      name, [](char c) { return !IsName(std::string(1, c)); }, '-');
  return name;
}

absl::StatusOr<MemberOptions> OptionsOf(const psgd_join_options& given) {
  MemberOptions options;
  PSGD_RETURN_IF_ERROR(CheckPointer(given.server, "options->server"));
  options.server = given.server;
  options.name = TextOr(given.name, "");
  options.replaces = !options.name.empty();
  if (!options.replaces) options.name = OwnName();
  options.device = TextOr(given.device, options.device);
  if (given.connect_ms < 0 || given.connect_ms > kLongestConnect) {
    return InvalidArgumentError("options->connect_ms is ", given.connect_ms,
                                "; give 0 for a minute, or up to a day");
  }
  options.wanted = given.wanted;
  if (given.connect_ms > 0) options.connect_deadline = Milliseconds(given.connect_ms);
  if (const std::string dir = TextOr(given.tls_dir, ""); !dir.empty()) {
    PSGD_ASSIGN_OR_RETURN(options.credentials, LoadCredentials(CredentialFilesIn(dir, "worker")));
  }
  if (const std::string file = TextOr(given.log_file, ""); !file.empty()) {
    PSGD_ASSIGN_OR_RETURN(options.log,
                          MakeLog({.name = options.name, .file = file, .to_stderr = false}));
  }
  return options;
}

absl::StatusOr<size_t> ElementsOfShape(const std::string& name, std::span<const int64_t> shape) {
  constexpr size_t kMost = size_t{1} << 40;
  size_t elements = 1;
  for (const int64_t side : shape) {
    if (side <= 0 || static_cast<size_t>(side) > kMost / elements) {
      return InvalidArgumentError("a side of ", name, " is ", side,
                                  "; sides are at least 1, and a tensor has at most 2^40 elements");
    }
    elements *= static_cast<size_t>(side);
  }
  return elements;
}

}  // namespace
}  // namespace psgd

using namespace psgd;

extern "C" {

int32_t psgd_abi_version(void) { return PSGD_ABI_VERSION; }

const char* psgd_last_error(void) { return LastError().c_str(); }

psgd_status psgd_join(const psgd_join_options* options, psgd_client* client) {
  return Guarded("psgd_join", [&]() -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(client, "client"));
    *client = 0;
    PSGD_ASSIGN_OR_RETURN(const psgd_join_options given, TakeIn(options, "options"));
    PSGD_ASSIGN_OR_RETURN(MemberOptions with, OptionsOf(given));
    PSGD_ASSIGN_OR_RETURN(std::unique_ptr<Client> joined, Client::Join(std::move(with)));
    *client = AllClients().Add(std::move(joined));
    return absl::OkStatus();
  });
}

psgd_status psgd_get_run(psgd_client client, psgd_run* run) {
  return WithClient("psgd_get_run", client, [&](Client& c) -> absl::Status {
    PSGD_ASSIGN_OR_RETURN(const psgd_run given, TakeIn(run, "run"));
    const Config& config = c.config();
    psgd_run made{};
    made.worker = c.worker();
    made.workers = static_cast<uint32_t>(config.cluster().workers());
    made.batch = static_cast<uint32_t>(config.data().batch());
    made.epochs = static_cast<uint32_t>(config.train().epochs());
    made.seed = config.seed();
    made.staleness = config.consistency().staleness();
    made.worker_optimizer = PushesWeights(config) ? 1 : 0;
    c.run_name().copy(made.name, sizeof made.name - 1);
    made.local_steps = StepsOfClock(config.local());
    // With groups there is no one rate.
    if (const OptimizerConfig& optimizer = config.optimizer();
        !PushesWeights(config) && optimizer.groups().empty()) {
      made.learning_rate = FirstHyper(optimizer).learning_rate();
      made.momentum =
          optimizer.has_lars() ? optimizer.lars().momentum() : optimizer.sgd().momentum();
    }
    GiveOut(made, given.size, run);
    return absl::OkStatus();
  });
}

psgd_status psgd_add_tensor(psgd_client client, const char* name, const int64_t* shape,
                            int32_t dimensions, int32_t flags, const float* first) {
  return WithClient("psgd_add_tensor", client, [&](Client& c) -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(name, "name"));
    PSGD_RETURN_IF_ERROR(CheckPointer(first, "first"));
    if (dimensions < 0 || dimensions > kMostDimensions) {
      return InvalidArgumentError(name, " has ", dimensions, " dimensions; at most ",
                                  kMostDimensions, " are allowed");
    }
    if (dimensions > 0) PSGD_RETURN_IF_ERROR(CheckPointer(shape, "shape"));
    if ((flags & ~(PSGD_STATISTIC | PSGD_DECAY | PSGD_SPARSE)) != 0) {
      return InvalidArgumentError("the flags of ", name, " are ", flags,
                                  "; known are PSGD_STATISTIC, PSGD_DECAY and PSGD_SPARSE");
    }
    ClientTensor tensor;
    tensor.name = name;
    // A scalar is a vector of one element for the shards.
    tensor.shape.assign(shape, shape + dimensions);
    if (tensor.shape.empty()) tensor.shape = {1};
    tensor.statistic = (flags & PSGD_STATISTIC) != 0;
    tensor.decays = (flags & PSGD_DECAY) != 0;
    tensor.sparse = (flags & PSGD_SPARSE) != 0;
    PSGD_ASSIGN_OR_RETURN(const size_t elements, ElementsOfShape(tensor.name, tensor.shape));
    return c.AddTensor(tensor, {first, elements});
  });
}

psgd_status psgd_commit(psgd_client client, uint64_t samples, uint32_t epochs) {
  return WithClient("psgd_commit", client, [&](Client& c) -> absl::Status {
    if (epochs > kMostEpochsOfARun) {
      return InvalidArgumentError(epochs, " epochs; at most ", kMostEpochsOfARun, " are allowed");
    }
    return c.Commit(samples, epochs);
  });
}

psgd_status psgd_next_share(psgd_client client, int32_t timeout_ms, psgd_share* share) {
  return WithClient("psgd_next_share", client, [&](Client& c) -> absl::Status {
    PSGD_ASSIGN_OR_RETURN(const psgd_share given, TakeIn(share, "share"));
    PSGD_ASSIGN_OR_RETURN(const auto next, c.NextShare(Until(timeout_ms)));
    if (!next)
      return absl::CancelledError(absl::StrCat("the run is over for this worker: ", c.over_why()));
    GiveOut(psgd_share{given.size, next->segment, next->epoch, next->batches,
                       next->ends_epoch ? 1 : 0, next->rank, next->ranks},
            given.size, share);
    return absl::OkStatus();
  });
}

psgd_status psgd_batch(psgd_client client, uint32_t batch, uint32_t* indices, size_t count) {
  return WithClient("psgd_batch", client, [&](Client& c) -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(indices, "indices"));
    return c.BatchIndices(batch, {indices, count});
  });
}

psgd_status psgd_wait(psgd_client client, int32_t timeout_ms) {
  return WithClient("psgd_wait", client, [&](Client& c) { return c.Wait(Until(timeout_ms)); });
}

psgd_status psgd_wait_tensor(psgd_client client, int32_t timeout_ms, uint32_t tensor) {
  return WithClient("psgd_wait_tensor", client,
                    [&](Client& c) { return c.WaitFor(tensor, Until(timeout_ms)); });
}

psgd_status psgd_get(psgd_client client, uint32_t tensor, float* values, size_t count) {
  return WithClient("psgd_get", client, [&](Client& c) -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(values, "values"));
    return c.Get(tensor, {values, count});
  });
}

psgd_status psgd_push_weights(psgd_client client, uint32_t tensor, const float* values,
                              size_t count) {
  return WithClient("psgd_push_weights", client, [&](Client& c) -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(values, "values"));
    return c.pushes().Push(tensor, Pushed::kWeights, std::span(values, count));
  });
}

psgd_status psgd_push_gradient(psgd_client client, uint32_t tensor, const float* values,
                               size_t count) {
  return WithClient("psgd_push_gradient", client, [&](Client& c) -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(values, "values"));
    return c.pushes().Push(tensor, Pushed::kGradient, std::span(values, count));
  });
}

psgd_status psgd_use_device(psgd_client client, uint32_t tensor, int32_t device) {
  return WithClient("psgd_use_device", client,
                    [&](Client& c) { return c.pushes().UseDevice(tensor, device); });
}

psgd_status psgd_get_place(psgd_client client, uint32_t tensor, int32_t* place) {
  return WithClient("psgd_get_place", client, [&](Client& c) -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(place, "place"));
    PSGD_ASSIGN_OR_RETURN(const CodedOn where, c.pushes().WhereCoded(tensor));
    *place = where == CodedOn::kHost     ? PSGD_ON_HOST
             : where == CodedOn::kDevice ? PSGD_ON_DEVICE
                                         : PSGD_ON_DEVICE_WITH_BASE;
    return absl::OkStatus();
  });
}

psgd_status psgd_push_device_weights(psgd_client client, uint32_t tensor, const float* values,
                                     const float* base, size_t count, void* stream) {
  return WithClient("psgd_push_device_weights", client, [&](Client& c) -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(values, "values"));
    return c.pushes().Push(tensor, Pushed::kWeights, DeviceValues{values, base, count, stream});
  });
}

psgd_status psgd_push_device_gradient(psgd_client client, uint32_t tensor, const float* values,
                                      const float* base, size_t count, void* stream) {
  return WithClient("psgd_push_device_gradient", client, [&](Client& c) -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(values, "values"));
    return c.pushes().Push(tensor, Pushed::kGradient, DeviceValues{values, base, count, stream});
  });
}

psgd_status psgd_push_rows(psgd_client client, uint32_t tensor, const int64_t* rows, size_t count,
                           const float* values, size_t elements) {
  return WithClient("psgd_push_rows", client, [&](Client& c) -> absl::Status {
    if (count > 0) PSGD_RETURN_IF_ERROR(CheckPointer(rows, "rows"));
    if (elements > 0) PSGD_RETURN_IF_ERROR(CheckPointer(values, "values"));
    return c.pushes().PushRows(tensor, {rows, count}, {values, elements});
  });
}

psgd_status psgd_get_sent(psgd_client client, uint32_t tensor, uint8_t* sent, size_t count) {
  return WithClient("psgd_get_sent", client, [&](Client& c) -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(sent, "sent"));
    return c.pushes().Sent(tensor, {sent, count});
  });
}

psgd_status psgd_exchanges(psgd_client client, int32_t* exchanges) {
  return WithClient("psgd_exchanges", client, [&](Client& c) -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(exchanges, "exchanges"));
    PSGD_ASSIGN_OR_RETURN(const bool does, c.Exchanges());
    *exchanges = does ? 1 : 0;
    return absl::OkStatus();
  });
}

psgd_status psgd_sends_elements(psgd_client client, uint32_t tensor, int32_t* sends) {
  return WithClient("psgd_sends_elements", client, [&](Client& c) -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(sends, "sends"));
    PSGD_ASSIGN_OR_RETURN(const bool does, c.pushes().SendsElements(tensor));
    *sends = does ? 1 : 0;
    return absl::OkStatus();
  });
}

psgd_status psgd_end_step(psgd_client client, const psgd_step* step) {
  return WithClient("psgd_end_step", client, [&](Client& c) -> absl::Status {
    if (step == nullptr) return c.EndStep({});
    PSGD_ASSIGN_OR_RETURN(const psgd_step given, TakeIn(step, "step"));
    return c.EndStep({.samples = given.samples,
                      .correct = given.correct,
                      .loss_sum = std::isfinite(given.loss_sum) ? given.loss_sum : 0,
                      .seconds_data = std::max(0.0, given.seconds_data),
                      .seconds_compute = std::max(0.0, given.seconds_compute),
                      .empty = given.empty != 0});
  });
}

psgd_status psgd_keep_state(psgd_client client) {
  return WithClient("psgd_keep_state", client, [&](Client& c) -> absl::Status {
    c.KeepState();
    return absl::OkStatus();
  });
}

psgd_status psgd_save_state(psgd_client client, const void* bytes, size_t size) {
  return WithClient("psgd_save_state", client, [&](Client& c) -> absl::Status {
    if (size > 0) PSGD_RETURN_IF_ERROR(CheckPointer(bytes, "bytes"));
    return c.SaveState({static_cast<const std::byte*>(bytes), size});
  });
}

psgd_status psgd_load_state(psgd_client client, void* bytes, size_t room, size_t* size) {
  return WithClient("psgd_load_state", client, [&](Client& c) -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(size, "size"));
    if (room > 0) PSGD_RETURN_IF_ERROR(CheckPointer(bytes, "bytes"));
    PSGD_ASSIGN_OR_RETURN(const auto* state, c.LoadedState());
    *size = state == nullptr ? 0 : state->size();
    if (const size_t copied = std::min(room, *size)) std::memcpy(bytes, state->data(), copied);
    return absl::OkStatus();
  });
}

psgd_status psgd_report(psgd_client client, const psgd_result* result) {
  return WithClient("psgd_report", client, [&](Client& c) -> absl::Status {
    PSGD_ASSIGN_OR_RETURN(const psgd_result given, TakeIn(result, "result"));
    if (given.measures > size_t{kMostMeasures}) {
      return InvalidArgumentError(given.measures, " measures; at most ", kMostMeasures,
                                  " are allowed");
    }
    constexpr double kRounding = 1e-6;  // of a mean of accuracies
    if (std::isnan(given.accuracy)) {
      return absl::InvalidArgumentError(
          "an accuracy that is not a number: give 0 where nothing was measured");
    }
    if (given.accuracy < 0 || given.accuracy > 1 + kRounding) {
      return InvalidArgumentError("an accuracy of ", given.accuracy,
                                  ": it is a fraction from 0 to 1; divide a percentage by 100");
    }
    EvalResult report;
    report.set_epoch(given.epoch);
    report.set_loss(given.loss);
    report.set_accuracy(std::min(given.accuracy, 1.0));
    report.set_samples(given.samples);
    report.set_seconds(given.seconds);
    if (given.measures > 0) {
      PSGD_RETURN_IF_ERROR(CheckPointer(given.names, "result->names"));
      PSGD_RETURN_IF_ERROR(CheckPointer(given.values, "result->values"));
    }
    for (size_t i = 0; i < given.measures; ++i) {
      PSGD_RETURN_IF_ERROR(CheckPointer(given.names[i], "a name in result->names"));
      (*report.mutable_measures())[given.names[i]] = given.values[i];
    }
    return c.Report(std::move(report));
  });
}

psgd_status psgd_note(psgd_client client, const char* text) {
  return WithClient("psgd_note", client, [&](Client& c) -> absl::Status {
    PSGD_RETURN_IF_ERROR(CheckPointer(text, "text"));
    c.Note(text);
    return absl::OkStatus();
  });
}

psgd_status psgd_get_timings(psgd_client client, psgd_timings* timings) {
  return WithClient("psgd_get_timings", client, [&](Client& c) -> absl::Status {
    PSGD_ASSIGN_OR_RETURN(const psgd_timings given, TakeIn(timings, "timings"));
    const ClientTimings t = c.timings();
    GiveOut(psgd_timings{given.size, t.steps, t.wait, t.install, t.encode, t.copy, t.control,
                         t.bytes_pushed, t.bytes_pulled},
            given.size, timings);
    return absl::OkStatus();
  });
}

psgd_status psgd_leave(psgd_client client, int32_t failed, const char* reason) {
  return Guarded("psgd_leave", [&]() -> absl::Status {
    const std::shared_ptr<OpenClient> open = AllClients().Take(client);
    if (open == nullptr) return NoClient(client);
    std::unique_lock lock(open->mutex, std::try_to_lock);
    if (!lock) {
      // A program that goes down does not wait for the call of another thread.
      if (failed != 0) open->client->Interrupt();
      lock.lock();
    }
    const std::unique_ptr<Client> leaving = std::move(open->client);
    const auto kept = leaving->KeepThreadDevice();
    return leaving->Leave(failed != 0, TextOr(reason, failed != 0 ? "it failed" : "it is done"));
  });
}

}  // extern "C"
