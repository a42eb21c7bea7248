#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "experiment/launch/codec_choices_text.h"
#include "experiment/record/codec_choices_record.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::Not;

CodecChoices::Tensor ChosenTensor(const std::string& parameter, uint64_t elements,
                                  uint32_t chosen) {
  CodecChoices::Tensor tensor;
  tensor.set_parameter(parameter);
  tensor.set_chosen(chosen);
  for (const auto& [codec, bytes] : {std::pair("fp16", 2.0), std::pair("topk", 0.05)}) {
    CodecChoices::Candidate* candidate = tensor.add_candidates();
    candidate->set_codec(codec);
    candidate->set_bytes(static_cast<uint64_t>(bytes * static_cast<double>(elements)));
    candidate->set_seconds_encode(0.001);
    candidate->set_seconds_send(0.02 * bytes);
    candidate->set_seconds_decode(0.0005);
  }
  return tensor;
}

CodecChoices Two() {
  CodecChoices choices;
  choices.set_worker(3);
  choices.set_clock(12);
  choices.set_bytes_per_second(2.5e6);
  choices.set_seconds_round_trip(0.00125);
  *choices.add_tensors() = ChosenTensor("conv.weight", 1000, 0);
  *choices.add_tensors() = ChosenTensor("fc.weight", 100000, 1);
  CodecChoices::Candidate* third = choices.mutable_tensors(1)->add_candidates();
  third->set_codec("int8");
  third->set_seconds_encode(0.25);
  return choices;
}

TEST(CodecChoicesText, IsATableTheLargestFirst) {
  EXPECT_EQ(CodecChoicesText(Two()),
            "\ncodecs of worker 3 from step 13 on: the link carries 2.50 MB/s, a round trip takes "
            "1.25 ms; predicted ms a push\n"
            "  tensor       push    fp16   topk     int8\n"
            "  fc.weight    topk  41.500  2.500  250.000\n"
            "  conv.weight  fp16  41.500  2.500        -\n");
  EXPECT_EQ(CodecChoicesText(CodecChoices()), "");
}

TEST(CodecChoicesText, SmallerOnesAreCounted) {
  CodecChoices choices;
  for (int i = 0; i < 20; ++i) {
    *choices.add_tensors() = ChosenTensor(absl::StrCat("w", i, "."), 1000 + 10 * i, i % 2);
  }
  const std::string text = CodecChoicesText(choices);
  EXPECT_THAT(text, HasSubstr("  w19. "));
  EXPECT_THAT(text, HasSubstr("  w4. "));
  EXPECT_THAT(text, Not(HasSubstr("  w3. ")));
  EXPECT_THAT(text, HasSubstr("  and 4 smaller ones: fp16 2, topk 2\n"));
}

TEST(CodecChoicesRecord, ReadsBack) {
  const Record record = CodecChoicesRecord(Two());
  EXPECT_EQ(record["tensors"][1]["codec"], "topk");
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(CodecChoicesOf(record), Two()));
  EXPECT_EQ(ChosenCodecs(Two()),
            (std::map<std::string, std::string>{{"conv.weight", "fp16"}, {"fc.weight", "topk"}}));
}

// Files and workers may send anything.
TEST(CodecChoicesRecord, NonsenseIsNothing) {
  for (const char* text : {"{}", "{\"tensors\": 7}", "{\"tensors\": [7, {\"candidates\": \"x\"}]}",
                           "{\"worker\": \"x\", \"tensors\": [{\"candidates\": [1, {}]}]}"}) {
    const CodecChoices choices = CodecChoicesOf(Record::parse(text));
    EXPECT_EQ(ChosenCodecs(choices).count("fc"), 0u) << text;
    CodecChoicesText(choices);
  }
  CodecChoices choices = Two();
  choices.mutable_tensors(0)->set_chosen(7);
  EXPECT_EQ(ChosenCodec(choices.tensors(0)), "");
  EXPECT_THAT(CodecChoicesText(choices), HasSubstr("conv.weight"));
}

}  // namespace
}  // namespace psgd
