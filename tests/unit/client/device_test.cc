// Programs whose tensors lie on a GPU, here an emulated one whose streams work as late as they may
// (tests/fakes/queued_device): with the same numbers the host's memory gives the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "common/log.h"
#include "common/plugin.h"
#include "tests/fakes/queued_device/asked.h"
#include "tests/folders.h"
#include "tests/unit/client/small_server.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr size_t kElements = 1000;
constexpr uint64_t kSamples = 40;  // ten batches of four
constexpr int kSteps = 10;
constexpr uint32_t kMatrix = 0, kBias = 1, kTail = 2;

Time Soon() { return SteadyNow() + std::chrono::seconds(30); }

MemberOptions OptionsFor(const SmallServer& server) {
  MemberOptions options;
  options.server = server.address();
  options.name = "program";
  return options;
}

// An array of the device, whose memory is the host's. Programs write to it on their stream.
class DeviceArrayOfProgram {
 public:
  DeviceArrayOfProgram(int device, size_t count) : device_(device), values_(count, NAN) {
    const auto found = FindInPlugin("cudnn", FakeDir("queued_device"), "psgd_queued_device_put");
    EXPECT_TRUE(found.ok()) << found.status();
    put_ = reinterpret_cast<queued::PutFunction>(*found);
  }
  void Write(int stream, const std::vector<float>& values) {
    const std::function<void()> write = [this, values] { values_ = values; };
    put_(device_, stream, &write);
  }
  // As memory that is used for something else: whoever still reads it gets NaN.
  void Spoil() { values_.assign(values_.size(), NAN); }
  const float* data() const { return values_.data(); }

 private:
  const int device_;
  queued::PutFunction put_;
  std::vector<float> values_;
};

struct Program {
  std::string config = {};         // of the run
  bool gradients = false;          // pushes them; else weights
  std::optional<int> device = {};  // where its tensors are; nullopt: on the host
  int stream = 0;                  // on which it writes there
  std::string plugin_dir = FakeDir("queued_device");
  std::string log_file = {};
  int steps = kSteps;
  int64_t rows = 100;          // of the matrix
  bool ends_last_step = true;  // else it leaves within the step
  bool goes_on = false;        // where a value is not finite
  // Changes what the program pushes of its matrix in a step.
  std::function<void(int step, std::vector<float>*)> change = nullptr;
};

struct Trained {
  std::vector<std::vector<float>> weights;  // of the matrix, in each step
  std::vector<std::vector<uint8_t>> sent;   // elements of the matrix that each step sent
  std::vector<float> first_shard;           // what the shard has when the program has left
  uint64_t bytes_pushed = 0;
  CodedOn matrix = CodedOn::kHost, bias = CodedOn::kHost;
  absl::Status status;  // of the steps
};

class Running {
 public:
  explicit Running(const Program& program)
      : program_(program),
        server_(program.config),
        counts_{static_cast<size_t>(program.rows) * 10, 4, 500} {
    MemberOptions options = OptionsFor(server_);
    if (!program.log_file.empty()) {
      options.log =
          MakeLog({.name = "program", .file = program.log_file, .to_stderr = false}).value();
    }
    client_ = Client::Join(options, program.plugin_dir).value();
    EXPECT_TRUE(client_
                    ->AddTensor({.name = "matrix", .shape = {program.rows, 10}, .decays = true},
                                std::vector<float>(counts_[kMatrix], 1))
                    .ok());
    EXPECT_TRUE(client_->AddTensor({.name = "bias", .shape = {4}}, std::vector<float>(4, 1)).ok());
    EXPECT_TRUE(
        client_->AddTensor({.name = "tail", .shape = {50, 10}}, std::vector<float>(500, 2)).ok());
    for (const uint32_t tensor : {kMatrix, kBias, kTail}) {
      if (!program.device) continue;
      EXPECT_TRUE(client_->pushes().UseDevice(tensor, *program.device).ok());
      values_.push_back(std::make_unique<DeviceArrayOfProgram>(*program.device, counts_[tensor]));
      bases_.push_back(std::make_unique<DeviceArrayOfProgram>(*program.device, counts_[tensor]));
    }
    const absl::Status committed = client_->Commit(kSamples, 1);
    EXPECT_TRUE(committed.ok()) << committed;
    EXPECT_TRUE(client_->NextShare(Soon()).ok());
  }
  // The device's work may use the arrays.
  ~Running() { client_.reset(); }

  Client& client() { return *client_; }

  absl::Status Push(uint32_t tensor, const std::vector<float>& weights,
                    const std::vector<float>& pushed) {
    PSGD_ASSIGN_OR_RETURN(const CodedOn where, client_->pushes().WhereCoded(tensor));
    const Pushed what = program_.gradients ? Pushed::kGradient : Pushed::kWeights;
    if (where == CodedOn::kHost) return client_->pushes().Push(tensor, what, pushed);
    values_[tensor]->Write(program_.stream, pushed);
    bases_[tensor]->Write(program_.stream, weights);
    const DeviceValues values{
        values_[tensor]->data(), where == CodedOn::kDevice ? nullptr : bases_[tensor]->data(),
        pushed.size(), reinterpret_cast<void*>(static_cast<intptr_t>(program_.stream))};
    return client_->pushes().Push(tensor, what, values);
  }

  absl::Status Step(int step, Trained* trained) {
    PSGD_RETURN_IF_ERROR(client_->Wait(Soon()));
    for (const uint32_t tensor : {kMatrix, kBias, kTail}) {
      std::vector<float> weights(counts_[tensor]);
      PSGD_RETURN_IF_ERROR(client_->Get(tensor, weights));
      std::vector<float> pushed = weights;
      for (size_t i = 0; i < pushed.size(); ++i) {
        const float gradient =
            static_cast<float>((i * 37 + static_cast<size_t>(step) * 101) % 211) / 64 - 1.5f;
        pushed[i] = program_.gradients ? gradient : weights[i] - 0.125f * gradient * weights[i];
      }
      if (tensor == kMatrix) trained->weights.push_back(weights);
      if (tensor == kMatrix && program_.change) program_.change(step, &pushed);
      PSGD_RETURN_IF_ERROR(UnlessItGoesOn(Push(tensor, weights, pushed)));
    }
    if (step % 3 == 1) {  // now and then the program asks before the step ends
      trained->sent.emplace_back(counts_[kMatrix]);
      PSGD_RETURN_IF_ERROR(client_->pushes().Sent(kMatrix, trained->sent.back()));
    }
    if (step + 1 == program_.steps && !program_.ends_last_step) return absl::OkStatus();
    const absl::Status ended = client_->EndStep({.samples = 4});
    PSGD_RETURN_IF_ERROR(UnlessItGoesOn(ended));
    if (!ended.ok()) PSGD_RETURN_IF_ERROR(client_->EndStep({.samples = 4}));
    for (const auto& array : values_) array->Spoil();
    for (const auto& array : bases_) array->Spoil();
    return absl::OkStatus();
  }

  Trained Train() {
    Trained trained;
    trained.matrix = client_->pushes().WhereCoded(kMatrix).value();
    trained.bias = client_->pushes().WhereCoded(kBias).value();
    for (int step = 0; step < program_.steps && trained.status.ok(); ++step) {
      trained.status = Step(step, &trained);
    }
    trained.bytes_pushed = client_->timings().bytes_pushed;
    const absl::Status left = client_->Leave(!trained.status.ok(), "done");
    EXPECT_TRUE(UnlessItGoesOn(left).ok()) << left;
    trained.first_shard = server_.Weights();
    return trained;
  }

 private:
  absl::Status UnlessItGoesOn(const absl::Status& status) const {
    return program_.goes_on && absl::IsOutOfRange(status) ? absl::OkStatus() : status;
  }

  const Program program_;
  SmallServer server_;
  const std::vector<size_t> counts_;                                   // by tensor
  std::vector<std::unique_ptr<DeviceArrayOfProgram>> values_, bases_;  // by tensor
  std::unique_ptr<Client> client_;
};

Trained Train(const Program& program) { return Running(program).Train(); }

void ExpectSameBits(const Trained& there, const Trained& here) {
  EXPECT_TRUE(there.status.ok()) << there.status;
  EXPECT_TRUE(here.status.ok()) << here.status;
  EXPECT_EQ(there.weights, here.weights);
  EXPECT_EQ(there.sent, here.sent);
  EXPECT_EQ(there.first_shard, here.first_shard);
  EXPECT_EQ(there.bytes_pushed, here.bytes_pushed);
}

std::string Compression(const std::string& push) {
  return absl::StrCat("compression: {push: ", push,
                      ", dense_below: 1, rules: [{match: bias, push: none}]}\n");
}

constexpr char kSgd[] = "optimizer: {sgd: {learning_rate: 0.1, weight_decay: 0.01}}\n";

class DeviceProgram : public testing::TestWithParam<const char*> {};

TEST_P(DeviceProgram, TrainsWithTheBitsOfTheHost) {
  for (const bool gradients : {false, true}) {
    Program program{.config = Compression(GetParam()), .gradients = gradients};
    if (gradients) program.config += kSgd;
    const Trained here = Train(program);
    EXPECT_EQ(here.matrix, CodedOn::kHost);
    EXPECT_EQ(here.weights.size(), static_cast<size_t>(kSteps));
    const bool coded = std::string(GetParam()) != "none";
    for (const int device : {0, 1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(gradients ? "gradients" : "weights", ", device ", device));
      program.device = device;
      program.stream = device % 2;
      const Trained there = Train(program);
      EXPECT_EQ(there.matrix, coded ? CodedOn::kDeviceWithBase : CodedOn::kHost);
      EXPECT_EQ(there.bias, CodedOn::kHost);
      ExpectSameBits(there, here);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, DeviceProgram,
                         testing::Values("none", "int8", "onebit", "ternary", "fp16",
                                         "{topk: {density: 0.05}}", "{dgc: {density: 0.05}}"),
                         [](const auto& info) {
                           const std::string codec = info.param;
                           return codec[0] == '{' ? codec.substr(1, codec.find(':') - 1) : codec;
                         });

// What a codec leaves out is pushed when the program leaves, also in the middle of a step.
TEST(DeviceProgramTest, LeavesAsAProgramOnTheHost) {
  for (const int steps : {1, 4}) {
    Program program{
        .config = Compression("{topk: {density: 0.02}}"), .steps = steps, .ends_last_step = false};
    const Trained here = Train(program);
    program.device = 1;
    ExpectSameBits(Train(program), here);
  }
}

// Weight decay of the shards' optimizer needs the weights; without it gradients travel alone.
TEST(DeviceProgramTest, TellsWhetherTheDeviceNeedsTheWeights) {
  Program program{
      .config = Compression("onebit") + "optimizer: {adamw: {}}\n", .gradients = true, .device = 0};
  EXPECT_EQ(Train(program).matrix, CodedOn::kDevice);
}

TEST(DeviceProgramTest, SmallTensorsAreEncodedTogether) {
  const int device = 7;
  EXPECT_TRUE(Train({.config = Compression("onebit"), .device = device}).status.ok());
  const auto found = FindInPlugin("cudnn", FakeDir("queued_device"), "psgd_queued_device_asked");
  std::vector<queued::Asked> asked;
  reinterpret_cast<queued::AskedFunction> (*found)(device, &asked);
  const auto groups = std::ranges::count_if(asked, [](const queued::Asked& call) {
    return call.kind == queued::Asked::kSetEvent && call.stream == queued::kCodecs;
  });
  EXPECT_EQ(groups, kSteps);
}

// What is launched before the host encodes the bias may be done, and leave, before the step ends.
TEST(DeviceProgramTest, LargeTensorsOfSeveralSlicesHaveTheBitsOfTheHost) {
  Program program{.config = Compression("int8"), .steps = 1, .rows = 105'000};
  const Trained here = Train(program);
  program.device = 8;
  ExpectSameBits(Train(program), here);
}

TEST(DeviceProgramTest, CodecsAreTriedAndChosenOnTheDevice) {
  const Program program{.config = Compression("{auto: {steps: 2, codecs: [int8, onebit]}}"),
                        .device = 2};
  const Trained trained = Train(program);
  EXPECT_TRUE(trained.status.ok()) << trained.status;
  EXPECT_EQ(trained.matrix, CodedOn::kDeviceWithBase);
}

TEST(DeviceProgramTest, ValuesThatAreNotFiniteGiveTheErrorOfTheHost) {
  for (const bool gradients : {false, true}) {
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      Program program{.config = Compression("int8") + (gradients ? kSgd : ""),
                      .gradients = gradients,
                      .change = [=](int step, std::vector<float>* pushed) {
                        if (step == 2) (*pushed)[777] = bad;
                      }};
      const absl::Status here = Train(program).status;
      program.device = 0;
      const absl::Status there = Train(program).status;
      EXPECT_TRUE(absl::IsOutOfRange(there)) << there;
      EXPECT_THAT(there.message(), HasSubstr("matrix is not finite: element 777"));
      EXPECT_EQ(there.message(), here.message());
    }
  }
}

// As on the host, where the push of that tensor fails: it may be pushed again.
TEST(DeviceProgramTest, OneTensorThatIsNotFiniteDoesNotKeepBackTheOthers) {
  for (const bool gradients : {false, true}) {
    for (const bool ends_last_step : {true, false}) {
      Program program{.config = Compression("{topk: {density: 0.05}}") + (gradients ? kSgd : ""),
                      .gradients = gradients,
                      .steps = ends_last_step ? 5 : 3,
                      .ends_last_step = ends_last_step,
                      .goes_on = true,
                      .change = [=](int step, std::vector<float>* pushed) {
                        if (step == 2) (*pushed)[777] = NAN;
                      }};
      const Trained here = Train(program);
      program.device = 4;
      ExpectSameBits(Train(program), here);
      program.change = nullptr;
      EXPECT_NE(Train(program).first_shard, here.first_shard);
    }
  }
}

TEST(DeviceProgramTest, ATensorThatWasNotFiniteMayBePushedAgain) {
  Running running({.config = Compression("int8"), .device = 5});
  Client& client = running.client();
  ASSERT_TRUE(client.Wait(Soon()).ok());
  const std::vector<float> weights(kElements, 1), bad(kElements, NAN);
  ASSERT_TRUE(running.Push(kMatrix, weights, bad).ok());
  EXPECT_TRUE(absl::IsOutOfRange(client.EndStep({})));
  EXPECT_TRUE(running.Push(kMatrix, weights, std::vector<float>(kElements, 0.5f)).ok());
  EXPECT_TRUE(client.EndStep({}).ok());
  EXPECT_TRUE(client.Leave(false, "done").ok());
}

std::string Read(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(DeviceProgramTest, TheLogTellsWhereTensorsAreCodedAndWhy) {
  const std::string log = testing::TempDir() + "/device_program.log";
  const auto said = [&](const std::string& config, const std::string& plugin_dir) {
    std::filesystem::remove(log);
    EXPECT_TRUE(Train({.config = config, .device = 0, .plugin_dir = plugin_dir, .log_file = log})
                    .status.ok());
    return Read(log);
  };
  EXPECT_THAT(said(Compression("onebit"), FakeDir("queued_device")),
              AllOf(HasSubstr("coded on CUDA device 0: matrix, tail"),
                    HasSubstr("on a GPU, but coded on the host, because no codec shortens it "
                              "(none): bias")));
  EXPECT_THAT(said(Compression("onebit"), "/nowhere"),
              AllOf(Not(HasSubstr("coded on CUDA device")),
                    HasSubstr("the plugin libpsgd_cudnn.so is not installed (looked for "
                              "/nowhere/libpsgd_cudnn.so); build it: matrix, tail"),
                    HasSubstr("no codec shortens it (none): bias")));
  EXPECT_THAT(said(Compression("none"), "/nowhere"),
              AllOf(Not(HasSubstr("libpsgd_cudnn.so")),
                    HasSubstr("no codec shortens it (none): matrix, bias, tail")));
}

TEST(DeviceProgramTest, LocalStepsAreCodedOnTheHost) {
  const std::string log = testing::TempDir() + "/device_local_steps.log";
  std::filesystem::remove(log);
  Running running(
      {.config = Compression("onebit") + "local: {steps: 5}\n", .device = 0, .log_file = log});
  EXPECT_EQ(running.client().pushes().WhereCoded(kMatrix).value(), CodedOn::kHost);
  EXPECT_THAT(Read(log), HasSubstr("local.steps"));
  EXPECT_TRUE(running.client().Leave(false, "done").ok());
}

TEST(DeviceProgramTest, WrongCallsSayWhatToDo) {
  SmallServer server(Compression("onebit"));
  const auto client = Client::Join(OptionsFor(server), FakeDir("queued_device")).value();
  const std::vector<float> first(kElements, 1);
  ASSERT_TRUE(client->AddTensor({.name = "matrix", .shape = {100, 10}}, first).ok());
  ASSERT_TRUE(client->AddTensor({.name = "bias", .shape = {kElements}}, first).ok());
  const auto expect = [](const absl::Status& status, absl::StatusCode code, const char* text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.ToString(), HasSubstr(text));
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kState = absl::StatusCode::kFailedPrecondition;
  expect(client->pushes().UseDevice(2, 0), kInvalid, "tensor 2, and there are 2");
  expect(client->pushes().UseDevice(0, -1), kInvalid, "devices are numbered from 0");
  expect(client->pushes().WhereCoded(0).status(), kState, "commit it before");
  ASSERT_TRUE(client->pushes().UseDevice(kMatrix, 0).ok());
  ASSERT_TRUE(client->Commit(kSamples, 1).ok());
  expect(client->pushes().UseDevice(kMatrix, 0), kState, "after the commit");
  expect(client->pushes().WhereCoded(2).status(), kInvalid, "tensor 2, and there are 2");
  std::vector<float> values(kElements, 0.5f);
  const DeviceValues there{values.data(), first.data(), kElements};
  expect(client->pushes().Push(kMatrix, Pushed::kWeights, there), kState,
         "before a share was dealt");
  ASSERT_TRUE(client->NextShare(Soon()).ok());
  ASSERT_TRUE(client->Wait(Soon()).ok());
  expect(client->pushes().Push(kBias, Pushed::kWeights, there), kInvalid,
         "bias is coded on the host");
  expect(client->pushes().Push(kMatrix, Pushed::kWeights, values), kInvalid,
         "matrix is coded on a GPU");
  const int64_t row = 0;
  expect(client->pushes().PushRows(kMatrix, {&row, 1}, std::span(values).first(10)), kInvalid,
         "matrix is coded on a GPU");
  expect(client->pushes().Push(kMatrix, Pushed::kWeights,
                               DeviceValues{values.data(), nullptr, kElements}),
         kInvalid, "the base of matrix is a null pointer");
  expect(client->pushes().Push(kMatrix, Pushed::kWeights,
                               DeviceValues{values.data(), first.data(), 7}),
         kInvalid, "matrix has 1000 elements");
  const auto found = FindInPlugin("cudnn", FakeDir("queued_device"), "psgd_queued_device_faults");
  queued::Faults* const faults = reinterpret_cast<queued::FaultsFunction>(*found)();
  for (const float* const memory : {there.values, there.base}) {
    faults->foreign_memory = memory;
    expect(client->pushes().Push(kMatrix, Pushed::kWeights, there), kInvalid,
           "not in memory of CUDA device 0");
  }
  faults->foreign_memory = nullptr;
  expect(client->pushes().Push(kMatrix, Pushed::kGradient, there), kState, "push weights");
  ASSERT_TRUE(client->pushes().Push(kMatrix, Pushed::kWeights, there).ok());
  expect(client->pushes().Push(kMatrix, Pushed::kWeights, there), kState, "was pushed before");
  ASSERT_TRUE(client->EndStep({}).ok());
  EXPECT_TRUE(client->Leave(false, "done").ok());
}

}  // namespace
}  // namespace psgd
