#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "server/shard/placement.h"

namespace psgd {
namespace {

using ::testing::HasSubstr;

ModelSpec Sound() {
  ModelSpec model;
  for (const char* name : {"conv1.weight", "conv1.bias"}) {
    ParameterSpec* parameter = model.add_parameters();
    parameter->set_name(name);
    parameter->add_shape(4);
  }
  return model;
}

std::string MessageAfter(const std::function<void(ModelSpec*)>& spoil) {
  ModelSpec model = Sound();
  spoil(&model);
  return std::string(ValidateModel(model).message());
}

TEST(ValidateModelTest, AcceptsASoundModel) {
  EXPECT_TRUE(ValidateModel(Sound()).ok());
  ModelSpec scalar = Sound();
  scalar.mutable_parameters(0)->clear_shape();
  EXPECT_TRUE(ValidateModel(scalar).ok());
}

TEST(ValidateModelTest, RefusesBadNames) {
  EXPECT_THAT(MessageAfter([](auto* m) { m->clear_parameters(); }), HasSubstr("no parameters"));
  EXPECT_THAT(MessageAfter([](auto* m) { m->mutable_parameters(1)->set_name(""); }),
              HasSubstr("parameter 1 has no name"));
  EXPECT_THAT(MessageAfter([](auto* m) { m->mutable_parameters(1)->set_name("conv1.weight"); }),
              HasSubstr("(conv1.weight) has the name of another"));
  EXPECT_THAT(
      MessageAfter([](auto* m) { m->mutable_parameters(0)->set_name(std::string(300, 'x')); }),
      HasSubstr("300 bytes"));
  EXPECT_THAT(
      MessageAfter([](auto* m) { m->mutable_parameters(0)->set_name("a\nb"); }),
      HasSubstr(
          "parameter 0 has the name \"a\\nb\", with a space or a character that is not printable"));
}

TEST(ValidateModelTest, RefusesBadShapes) {
  EXPECT_THAT(MessageAfter([](auto* m) { m->mutable_parameters(0)->add_shape(0); }),
              HasSubstr("size 0"));
  EXPECT_THAT(MessageAfter([](auto* m) { m->mutable_parameters(0)->add_shape(-3); }),
              HasSubstr("size -3"));
  EXPECT_THAT(MessageAfter([](auto* m) {
                for (int i = 0; i < 6; ++i) m->mutable_parameters(0)->add_shape(INT64_MAX / 2);
              }),
              HasSubstr("more than"));
  EXPECT_THAT(MessageAfter([](auto* m) {
                for (int i = 0; i < 20; ++i) m->mutable_parameters(0)->add_shape(1);
              }),
              HasSubstr("21 dimensions"));
  EXPECT_THAT(MessageAfter([](auto* m) {
                for (auto& p : *m->mutable_parameters()) p.set_shape(0, int64_t{1} << 35);
              }),
              HasSubstr("counted up to parameter 1"));
}

TEST(ValidateModelTest, RefusesTooManyParameters) {
  EXPECT_THAT(MessageAfter([](auto* m) {
                for (int i = 0; i < 100000; ++i) {
                  m->add_parameters()->set_name(std::to_string(i));
                }
              }),
              HasSubstr("100002 parameters"));
}

TEST(ValidateModelTest, RefusesBadInitialValues) {
  const auto with = [](const std::function<void(Initializer*)>& spoil) {
    return MessageAfter([&](auto* m) { spoil(m->mutable_parameters(0)->mutable_initializer()); });
  };
  EXPECT_THAT(with([](auto* i) { i->mutable_constant()->set_value(NAN); }), HasSubstr("finite"));
  EXPECT_THAT(with([](auto* i) { i->mutable_normal()->set_stddev(INFINITY); }),
              HasSubstr("finite"));
  EXPECT_THAT(with([](auto* i) { i->mutable_normal()->set_stddev(-1); }), HasSubstr("negative"));
  EXPECT_THAT(with([](auto* i) { i->mutable_uniform()->set_low(1); }), HasSubstr("low end"));
}

TEST(ValidateModelTest, RefusesUnknownRoles) {
  EXPECT_THAT(MessageAfter([](auto* m) {
                m->mutable_parameters(0)->set_role(static_cast<ParameterSpec::Role>(9));
              }),
              HasSubstr("role 9"));
}

}  // namespace
}  // namespace psgd
