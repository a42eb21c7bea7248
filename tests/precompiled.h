// What every test includes, compiled once: nothing that we write, or its change would rebuild all
// tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/precompiled.h"
