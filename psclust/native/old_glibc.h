/* setup.py puts it before each source. These functions have been in libc since glibc 2.34, with
 * that version; what asks for the version that they had before also runs with older ones, where
 * they are in the libraries that setup.py links. So a wheel needs no more than glibc 2.17, as
 * TensorFlow's do. Includes nothing: a source says first which features it wants of the C library.
 */
#ifdef __gnu_linux__
#if defined(__x86_64__)
#define BEFORE_2_34 "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define BEFORE_2_34 "GLIBC_2.17"
#endif
#endif

#ifdef BEFORE_2_34
__asm__(".symver dlopen, dlopen@" BEFORE_2_34);
__asm__(".symver dlsym, dlsym@" BEFORE_2_34);
__asm__(".symver pthread_create, pthread_create@" BEFORE_2_34);
__asm__(".symver pthread_detach, pthread_detach@" BEFORE_2_34);
#endif
