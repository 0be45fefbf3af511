// Eight values at once, for the few loops that compilers do not turn into vector code by themselves.
//
// These are GCC's and Clang's portable vector types: on hosts with narrower registers the compiler splits them.
#ifndef NPK_LANES_H
#define NPK_LANES_H

#include <cstdint>
#include <cstring>

namespace npk {

typedef float Float8 __attribute__((vector_size(32)));
typedef int32_t Int8 __attribute__((vector_size(32)));

template <class Vector, class T>
inline Vector load_lanes(const T* from)
{
    static_assert(sizeof(Vector) == 8 * sizeof(T), "eight lanes");
    Vector lanes;
    memcpy(&lanes, from, sizeof(lanes));
    return lanes;
}

template <class Vector, class T>
inline void store_lanes(T* to, const Vector& lanes)
{
    static_assert(sizeof(Vector) == 8 * sizeof(T), "eight lanes");
    memcpy(to, &lanes, sizeof(lanes));
}

} // namespace npk

#endif
