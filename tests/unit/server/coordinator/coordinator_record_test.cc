// A coordinator that is restored from its record goes on like the first coordinator.
#include <google/protobuf/util/message_differencer.h>

#include <set>

#include "tests/unit/server/coordinator/coordinator_fixture.h"

namespace psgd {
namespace {

namespace protobuf = google::protobuf;

std::unique_ptr<CoordinatorCore> Again(const CoordinatorRecord& record, const Config& config,
                                       Time now) {
  CoordinatorOptions options;
  options.config = config;
  auto core = std::make_unique<CoordinatorCore>(options);
  core->Restore(record, now);
  return core;
}

// Fields of the record that CoordinatorCore does not save and restore.
const std::set<std::string> kOthers = {"orders", "last_order",  // OrderBook
                                       "passes"};               // RunLeader, in a secured run

void Fill(protobuf::Message* message, int depth);

// Sets the field, or adds to it, a value that is not the default.
void FillField(protobuf::Message* message, const protobuf::FieldDescriptor& field, int depth) {
  const protobuf::Reflection& to = *message->GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case protobuf::FieldDescriptor::CPPTYPE_MESSAGE:
      return Fill(many ? to.AddMessage(message, &field) : to.MutableMessage(message, &field),
                  depth + 1);
    case protobuf::FieldDescriptor::CPPTYPE_STRING: {
      const std::string text(field.name());
      return many ? to.AddString(message, &field, text) : to.SetString(message, &field, text);
    }
    case protobuf::FieldDescriptor::CPPTYPE_BOOL:
      return many ? to.AddBool(message, &field, true) : to.SetBool(message, &field, true);
    case protobuf::FieldDescriptor::CPPTYPE_ENUM:
      return many ? to.AddEnumValue(message, &field, 1) : to.SetEnumValue(message, &field, 1);
    case protobuf::FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? to.AddDouble(message, &field, 1.5)
                  : to.SetDouble(message, &field, field.number() + 0.5);
    case protobuf::FieldDescriptor::CPPTYPE_FLOAT:
      return many ? to.AddFloat(message, &field, 1.5F) : to.SetFloat(message, &field, 1.5F);
    case protobuf::FieldDescriptor::CPPTYPE_UINT64:
      return many ? to.AddUInt64(message, &field, 7)
                  : to.SetUInt64(message, &field, 100u + field.number());
    case protobuf::FieldDescriptor::CPPTYPE_INT64:
      return many ? to.AddInt64(message, &field, 7)
                  : to.SetInt64(message, &field, 100 + field.number());
    case protobuf::FieldDescriptor::CPPTYPE_UINT32:
      return many ? to.AddUInt32(message, &field, 7)
                  : to.SetUInt32(message, &field, 100u + field.number());
    case protobuf::FieldDescriptor::CPPTYPE_INT32:
      return many ? to.AddInt32(message, &field, 7)
                  : to.SetInt32(message, &field, 100 + field.number());
  }
}

void Fill(protobuf::Message* message, int depth) {
  if (depth > 12) return;  // for recursive messages
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const protobuf::FieldDescriptor& field = *message->GetDescriptor()->field(i);
    if (depth == 0 && kOthers.contains(std::string(field.name()))) continue;
    FillField(message, field, depth);
  }
}

class CoordinatorRecordTest : public testing::Test {
 protected:
  const Config config_ = CoordinatorConfig(2, 2, 2);
  CoordinatorFixture first_{config_};
};

TEST_F(CoordinatorRecordTest, SavesWhatItRestores) {
  const WorkerKey a = first_.JoinAndRegister(), b = first_.JoinAndRegister();
  const uint64_t segment = first_.Next(a).segment().id();
  first_.Next(b);
  first_.Next(a, segment);
  CoordinatorRecord record = first_.core().Save(first_.now());
  ASSERT_TRUE(record.has_ledger());
  const auto again = Again(record, config_, first_.now());
  record.mutable_total()->set_counts_incomplete(true);
  EXPECT_EQ(again->Save(first_.now()).SerializeAsString(), record.SerializeAsString());
}

// A field that Save or Restore forgets is missing, or has its default.
TEST_F(CoordinatorRecordTest, EveryFieldIsRestoredAndSavedAgain) {
  CoordinatorRecord record;
  Fill(&record, 0);
  for (int i = 0; i < record.GetDescriptor()->field_count(); ++i) {
    const protobuf::FieldDescriptor& field = *record.GetDescriptor()->field(i);
    const protobuf::Reflection& in = *record.GetReflection();
    const bool set =
        field.is_repeated() ? in.FieldSize(record, &field) > 0 : in.HasField(record, &field);
    EXPECT_NE(set, kOthers.contains(std::string(field.name()))) << field.name();
  }
  const CoordinatorRecord again = Again(record, config_, first_.now())->Save(first_.now());
  std::string difference;
  protobuf::util::MessageDifferencer compared;
  compared.ReportDifferencesToString(&difference);
  EXPECT_TRUE(compared.Compare(record, again)) << difference;
}

// The test above does not notice state that has no field in the record.
TEST_F(CoordinatorRecordTest, ACheckpointKeepsTheNameThatWasAskedFor) {
  const WorkerKey a = first_.JoinAndRegister(), b = first_.JoinAndRegister();
  const uint64_t segment = first_.Next(a).segment().id();
  first_.Next(b);
  ASSERT_TRUE(first_.core().RequestCheckpoint("good").ok());
  const auto asked = Again(first_.core().Save(first_.now()), config_, first_.now());
  EXPECT_EQ(asked->RequestCheckpoint("other").status().message(),
            "the next checkpoint will be good; ask for another name once it is taken");
  first_.Next(a, segment);
  ASSERT_TRUE(first_.core().checkpoint_under_way());
  ASSERT_EQ(first_.core().checkpoint_under_way()->name, "good");
  const auto again = Again(first_.core().Save(first_.now()), config_, first_.now());
  ASSERT_TRUE(again->checkpoint_under_way());
  EXPECT_EQ(again->checkpoint_under_way()->name, "good");
}

TEST_F(CoordinatorRecordTest, ARequestThatIsAskedAgainFindsTheSameAnswer) {
  const WorkerKey a = first_.JoinAndRegister(), b = first_.JoinAndRegister();
  const NextSegmentReply dealt = first_.Next(a);
  const auto again = Again(first_.core().Save(first_.now()), config_, first_.now());
  NextSegmentRequest request;
  *request.mutable_key() = a;
  request.set_first(true);
  Effects effects;
  EXPECT_EQ(again->NextSegment(request, first_.now(), &effects)->segment().SerializeAsString(),
            dealt.segment().SerializeAsString());
  EXPECT_TRUE(effects.commands.empty()) << "it was dealt already";
  *request.mutable_key() = b;
  EXPECT_EQ(again->NextSegment(request, first_.now(), &effects)->segment().id(),
            dealt.segment().id());
}

// The servers may have been away for longer than a lease.
TEST_F(CoordinatorRecordTest, LeasesStartWhenItIsRestored) {
  const WorkerKey a = first_.JoinAndRegister();
  const Time later = first_.now() + Milliseconds(config_.cluster().lease()) * 3;
  const auto again = Again(first_.core().Save(first_.now()), config_, later);
  Effects effects;
  again->Tick(later, &effects);
  EXPECT_TRUE(effects.commands.empty());
  HeartbeatRequest beat;
  *beat.mutable_key() = a;
  EXPECT_TRUE(again->Heartbeat(beat, later).ok());
  for (Time now = later; now < later + Milliseconds(config_.cluster().lease()) * 2;) {
    again->Tick(now += Milliseconds(100), &effects);
  }
  EXPECT_EQ(effects.commands.size(), 1u) << "and run out, as always";
}

}  // namespace
}  // namespace psgd
