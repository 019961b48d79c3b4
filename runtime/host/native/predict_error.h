/* The text of MXGetLastError, of each thread. Only predict.c and lists.h include this. */
#ifndef MXF_PREDICT_ERROR_H
#define MXF_PREDICT_ERROR_H

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 512

static pthread_key_t text_key;
static pthread_once_t text_once = PTHREAD_ONCE_INIT;
static bool has_text;

static void make_key(void)
{
    has_text = pthread_key_create(&text_key, free) == 0;
}

static char *own_text(void)
{
    pthread_once(&text_once, make_key);
    char *text = has_text ? pthread_getspecific(text_key) : NULL;
    if (text == NULL && has_text) {
        text = calloc(1, TEXT_BYTES);
        pthread_setspecific(text_key, text);
    }
    return text;
}

/* Keeps the text; returns -1. */
static int fail(const char *format, ...)
{
    char *text = own_text();
    va_list arguments;
    va_start(arguments, format);
    if (text != NULL)
        vsnprintf(text, TEXT_BYTES, format, arguments);
    va_end(arguments);
    return -1;
}

#endif
