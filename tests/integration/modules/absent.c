/* absent.c: what stands for a service's client library that is not installed. */
int shelf_absent(void);

int shelf_absent(void)
{
    return 0;
}
