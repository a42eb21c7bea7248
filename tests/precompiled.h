// What every test includes, compiled once: nothing of ours, or all tests would be built again.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/precompiled.h"
