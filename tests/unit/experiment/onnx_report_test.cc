#include "experiment/launch/onnx_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(OnnxReport, AnExportForEvaluationIsNoted) {
  OnnxCheck check;
  check.ops["Conv"].nodes = 5;
  check.ops["Relu"].nodes = 5;
  const auto text = [&](bool json) { return OnnxCheckText("a.onnx", check, json); };
  EXPECT_THAT(text(false), HasSubstr("note: the file has 5 convolutions and neither batch norm nor "
                                     "dropout; if the network has them, it was exported for "
                                     "evaluation"));
  EXPECT_THAT(text(true), HasSubstr("exported for evaluation"));
  for (const char* layer : {"BatchNormalization", "Dropout", "GroupNormalization"}) {
    OnnxCheck trained = check;
    trained.ops[layer].nodes = 1;
    EXPECT_THAT(OnnxCheckText("a.onnx", trained, false), Not(HasSubstr("note")));
  }
}

TEST(OnnxReport, AFoldedBatchNormIsNotedInSmallNetworks) {
  OnnxCheck check;
  check.ops["Conv"].nodes = 1;
  check.trained = {{"features.0.weight", "8x3x3x3", 216}};
  EXPECT_EQ(EvaluationNote(check), "");
  check.trained.push_back({"onnx::Conv_23", "8x3x3x3", 216});
  EXPECT_THAT(EvaluationNote(check),
              AllOf(HasSubstr("the exporter made onnx::Conv_23, as it does for evaluation of a "
                              "convolution and its batch norm"),
                    HasSubstr("training=torch.onnx.TrainingMode.TRAINING")));
}

TEST(OnnxReport, NotesOfTheImportAreTold) {
  OnnxCheck check;
  check.notes = {"trained apart: a", "not trained: b"};
  EXPECT_THAT(OnnxCheckText("a.onnx", check, false),
              HasSubstr("\nnote: trained apart: a\n\nnote: not trained: b\n"));
  EXPECT_THAT(OnnxCheckText("a.onnx", check, true), HasSubstr("trained apart: a"));
}

}  // namespace
}  // namespace psgd
