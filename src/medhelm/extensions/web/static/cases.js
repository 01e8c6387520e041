/* The left and right arrow keys follow the links to the previous and next case, up and down move in the list of cases;
   buttons copy an answer. */
(function () {
  'use strict';
  document.addEventListener('keydown', function (event) {
    // Within a field or a text that scrolls the keys keep their meaning.
    var focused = document.activeElement;
    var free = focused === null || focused === document.body || focused.id === 'content' || focused.matches('a, button');
    if (!free || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) { return; }
    var link = document.querySelector('a[data-key="' + (/^Arrow(Left|Right)$/.test(event.key) ? event.key : '') + '"]');
    if (link) { event.preventDefault(); link.click(); }
  });

  var rail = document.querySelector('.rail ol');
  if (rail) {
    rail.addEventListener('keydown', function (event) {
      var links = Array.prototype.slice.call(rail.querySelectorAll('a'));
      var step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      var next = step && links[links.indexOf(document.activeElement) + step];
      if (next) { event.preventDefault(); next.focus(); }
    });
  }

  // Browsers offer the clipboard on this machine and over TLS only.
  if (!navigator.clipboard) { return; }
  document.querySelectorAll('button[data-copy]').forEach(function (button) {
    button.hidden = false;
    button.addEventListener('click', function () {
      var text = document.getElementById(button.getAttribute('data-copy'));
      var label = button.firstChild;
      navigator.clipboard.writeText(text.innerText).then(function () {
        label.nodeValue = 'Copied';
        button.addEventListener('blur', function () { label.nodeValue = 'Copy'; }, { once: true });
      });
    });
  });
}());
