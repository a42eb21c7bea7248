#include "common/loaded_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(LoadedLibrary, FindsFunctions) {
  auto library = LoadedLibrary::Load("libm.so.6", "");
  ASSERT_TRUE(library.ok()) << library.status();
  double (*root)(double) = nullptr;
  library->Find("sqrt", &root);
  ASSERT_TRUE(library->FoundAll("").ok());
  EXPECT_EQ(root(9), 3);
}

TEST(LoadedLibrary, NamesTheMissingFunctionAndTheNextStep) {
  auto library = LoadedLibrary::Load("libm.so.6", "");
  ASSERT_TRUE(library.ok()) << library.status();
  void (*none)() = nullptr;
  library->Find("no_such_function", &none);
  EXPECT_EQ(none, nullptr);
  const absl::Status status = library->FoundAll("version 2 has it");
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(status.message(), "libm.so.6 has no no_such_function; version 2 has it");
}

TEST(LoadedLibrary, NamesTheMissingFileAndTheNextStep) {
  const absl::Status status = LoadedLibrary::Load("libabsent.so.1", "install absent1").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cannot load libabsent.so.1 ("), HasSubstr("No such file"),
                    HasSubstr("; install absent1")));
}

}  // namespace
}  // namespace psgd
