#include "dashboard/control_calls.h"

#include "absl/strings/str_cat.h"
#include "dashboard/site_guard.h"
#include "experiment/record/records.h"
#include "server/control/server_loop.h"

namespace psgd {
namespace {

absl::StatusOr<std::string> SetLearningRate(const Record& body, ServerLoop& server) {
  if (!body.contains("value") || !body["value"].is_number()) {
    return absl::InvalidArgumentError("say which learning rate: {\"value\": 0.01}");
  }
  SetHyperRequest request;
  request.mutable_hyper()->set_learning_rate(body["value"].get<double>());
  request.set_set_learning_rate(true);
  PSGD_ASSIGN_OR_RETURN(const SetHyperReply reply, server.Call(request));
  return absl::StrCat("learning rate ", reply.hyper().learning_rate(),
                      " before the schedule, version ", reply.hyper().version());
}

absl::StatusOr<std::string> BeginCheckpoint(ServerLoop& server) {
  CheckpointRequest request;
  request.set_begin_only(true);
  PSGD_ASSIGN_OR_RETURN(const CheckpointReply reply, server.Call(request));
  return absl::StrCat("checkpoint ", reply.id(), " is taken at the end of this segment");
}

absl::StatusOr<std::string> DrainWorker(const Record& body, ServerLoop& server) {
  if (!body.contains("worker") || !body["worker"].is_number_unsigned()) {
    return absl::InvalidArgumentError("say which worker: {\"worker\": 0}");
  }
  DrainRequest request;
  request.set_worker(body["worker"].get<uint32_t>());
  PSGD_RETURN_IF_ERROR(server.Call(request).status());
  return absl::StrCat("worker ", request.worker(), " pushes what it holds back, and leaves");
}

}  // namespace

absl::string_view ControlCallOf(absl::string_view path) {
  if (path == "/api/learning-rate") return "SetHyper";
  if (path == "/api/checkpoint") return "Checkpoint";
  return path == "/api/drain" ? "Drain" : "";
}

absl::StatusOr<std::string> CallControl(const HttpRequest& request, ServerLoop& server) {
  const Record body = Record::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return absl::InvalidArgumentError("the body is no JSON object");
  const absl::string_view call = ControlCallOf(request.path);
  if (call == "SetHyper") return SetLearningRate(body, server);
  return call == "Checkpoint" ? BeginCheckpoint(server) : DrainWorker(body, server);
}

HttpResponse ErrorResponse(const absl::Status& error) {
  HttpResponse response;
  response.body = absl::StrCat(std::string(error.message()), "\n");
  switch (error.code()) {
    case absl::StatusCode::kInvalidArgument:
      response.status = 400;
      break;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      response.status = 403;
      break;
    case absl::StatusCode::kNotFound:
      response.status = 404;
      break;
    case absl::StatusCode::kFailedPrecondition:
      response.status = 409;
      break;
    default:
      response.status = 503;
  }
  AddSafeHeaders(&response);
  return response;
}

}  // namespace psgd
