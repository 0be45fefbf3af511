// The few parts of the GoogleTest interface that exported unit tests use, so that they run where the library is not
// installed. Written for these tests; not a replacement.
#ifndef TESTS_GTEST_H
#define TESTS_GTEST_H

#include <cmath>
#include <exception>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace testing {

class Test {
public:
    virtual ~Test() = default;
    virtual void TestBody() = 0;
};

struct Registered {
    std::string name;
    std::function<void()> run;
};

inline std::vector<Registered>& registry()
{
    static std::vector<Registered> tests;
    return tests;
}

inline bool add(const char* name, std::function<void()> run)
{
    registry().push_back({name, std::move(run)});
    return true;
}

struct Failure : std::exception {
    explicit Failure(std::string message) : text(std::move(message)) {}
    const char* what() const noexcept override
    {
        return text.c_str();
    }
    std::string text;
};

// Collects what is streamed into a failed assertion and throws when the statement ends.
class Reporter {
public:
    explicit Reporter(const std::string& start)
    {
        stream_ << start;
    }
    ~Reporter() noexcept(false)
    {
        throw Failure(stream_.str());
    }
    template <typename T> Reporter& operator<<(const T& value)
    {
        stream_ << value;
        return *this;
    }

private:
    std::ostringstream stream_;
};

inline std::string difference(double actual, double expected, double allowed)
{
    std::ostringstream text;
    text << actual << " differs from " << expected << " by more than " << allowed << " at ";
    return text.str();
}

inline int run_all()
{
    int failed = 0;
    for (const Registered& test : registry()) {
        try {
            test.run();
            std::cout << "[       OK ] " << test.name << "\n";
        } catch (const std::exception& error) {
            ++failed;
            std::cout << "[  FAILED  ] " << test.name << ": " << error.what() << "\n";
        }
    }
    return failed == 0 && !registry().empty() ? 0 : 1;
}

} // namespace testing

#define TEST_F(fixture, name)                                                                                  \
    struct fixture##_##name : fixture {                                                                        \
        void TestBody() override;                                                                              \
    };                                                                                                         \
    static const bool fixture##_##name##_added =                                                               \
        ::testing::add(#fixture "." #name, [] { fixture##_##name().TestBody(); });                             \
    void fixture##_##name::TestBody()

// A NaN is not near anything.
#define ASSERT_NEAR(actual, expected, allowed)                                                                 \
    if (std::abs((actual) - (expected)) <= (allowed)) {                                                        \
    } else                                                                                                     \
        ::testing::Reporter(::testing::difference((actual), (expected), (allowed)))

#endif
