// TESSERA_SANITIZED: whether this is built with a sanitizer, whose runtime takes memory and makes system
// calls of its own.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESSERA_SANITIZED 1
#elif defined(__has_feature)
#define TESSERA_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define TESSERA_SANITIZED 0
#endif
