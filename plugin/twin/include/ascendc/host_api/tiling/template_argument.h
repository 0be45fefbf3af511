// Declarations of a kernel's template parameters.  The operator compiler reads them to build one binary per
// combination; here the host program instantiates the combinations it runs, so they declare nothing.
#ifndef NPK_TEMPLATE_ARGUMENT_H
#define NPK_TEMPLATE_ARGUMENT_H

#define ASCENDC_TPL_ARGS_DECL(op, ...) static_assert(true, #op)
#define ASCENDC_TPL_SEL(...) static_assert(true)

#endif
