"""Answers as models write them: Markdown of every kind, short enough that no bound cuts it."""

MIXED = """\
I looked at the code. Here is what I found, and what I would change first.

# Findings

The parser reads the whole file into memory. That is fine for **small files**, but not for logs:
- `reader.py` keeps every line
- `index.py` keeps them *twice*
- nothing is ever let go

## Why it matters
A log of 2 GB needs 9 GB of memory, see [the issue](https://example.com/issues/12 "Memory") for the numbers.
Setext headings
---------------
are rare, but models write them.

***

1. Read in chunks.
2. Keep offsets, not lines:

   ```python
   def offsets(path):
       with open(path, "rb") as file:

           while line := file.readline():
               yield file.tell()
   ```

   That is enough for `seek`.
3. Measure again.

> A quote of somebody
> over two lines
and a third without its mark.

> Another one.

| file | lines | note |
|:-----|------:|------|
| `reader.py` | 120 | reads |
| `index.py` | 1,450 | a \\| b |

<details>
<summary>More</summary>
Text in HTML is text.
</details>

Done. Shall I *go on*?
"""

LISTS = """\
Steps:

- First, loose

- Second, loose, with a second paragraph.

  It belongs to the item, and is long enough that a terminal of eighty columns has to wrap it somewhere.

- Third
  - nested tight
  - nested *with* marks
    1. deeper
    2. deepest

       with text of its own
  - back again
lazy line of that paragraph
* another list
* of stars
+ and of plusses

1) one
2) two
   - in two

     ```sh
     make test
     ```
3) three

4. another kind of number
7. written as seven

-     indented code in an item
- after it

      code behind a paragraph

- [ ] a task
- [x] a task that is done
- | a | b |
  |---|---|
  | 1 | 2 |
- # a heading in an item
- > a quote in an item
  > of two lines
- ***
- the last one
"""

CODE = """\
Run this:
```bash
pip install perdure
```
or, with more in it:

````markdown
```python
nested = True
```
````

~~~js
const tilde = `x`;

~~~
    indented after a fence

    and on

Text.

   ```
   indented by three
     and more
   ```
1. in a list

```text
not in the list: it is not indented
```

2. the list goes on

- ```
  an item that is code
  ```
- ~~~
  left by an item
- next

```diff
-old
+new
```
# Heading at once
```
never closed
  at all
"""

PLAIN = """\
Just text, without anything that is Markdown.

Two paragraphs of it; the second one is long enough that it has to be wrapped at eighty columns, where a
line ends in the source as well.

The end.
"""

HARD = """\
Ünïcödé, 日本語のテキスト, emoji 👩‍👩‍👧 and e\u0301 combining.

\tcode by a tab

1.\ttab behind a number
2.\tand again

\tin the item

Term
soft break, and `code over
two lines`.

* * *

- - - a rule? no: three lists
- - -

10. ten
11. eleven

Heading *with marks*
===

Text\\
break

\x0c
form feed
"""

ALL = {"mixed": MIXED, "lists": LISTS, "code": CODE, "plain": PLAIN, "hard": HARD}
