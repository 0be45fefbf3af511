#include <gtest/gtest.h>

int main()
{
    return ::testing::run_all();
}
