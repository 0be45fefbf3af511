#ifndef NPK_RUNTIME_EXPORT_H_
#define NPK_RUNTIME_EXPORT_H_

#define NPK_EXPORT __attribute__((visibility("default")))

#endif // NPK_RUNTIME_EXPORT_H_
