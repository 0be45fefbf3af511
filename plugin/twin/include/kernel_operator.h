// The Ascend C API for the host, architecture 2201 (Atlas A2 and A3), written from the public documentation.
//
// Kernels include this file and nothing else; docs of each part stand in the headers below.
#ifndef NPK_KERNEL_OPERATOR_H
#define NPK_KERNEL_OPERATOR_H

#include "npk/types.h"

#include "npk/check.h"
#include "npk/tensor.h"

#include "npk/queue.h"
#include "npk/sync.h"
#include "npk/system.h"

#include "npk/cast.h"
#include "npk/compare.h"
#include "npk/fill.h"
#include "npk/mask.h"
#include "npk/reduce.h"
#include "npk/vector_binary.h"
#include "npk/vector_unary.h"

#include "npk/datacopy.h"

#include "npk/fixpipe.h"
#include "npk/load.h"
#include "npk/mmad.h"

#if NPK_TWIN_PREBUILT == 1
#include "npk/instances.h"
#endif

#endif
