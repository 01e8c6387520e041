/* Small helps on every page. Everything works without them. */
(function () {
  'use strict';

  // Forms with [data-auto] apply a changed choice at once; without scripts their button does.
  document.querySelectorAll('form[data-auto]').forEach(function (form) {
    form.addEventListener('change', function (event) {
      if (event.target instanceof HTMLSelectElement) { form.requestSubmit(); }
    });
  });

  // A form sends only the fields that are filled in, so that addresses stay short.
  document.querySelectorAll('form[method="get"]').forEach(function (form) {
    form.addEventListener('submit', function () {
      Array.prototype.forEach.call(form.elements, function (field) {
        if (field.name && field.value === '') { field.disabled = true; }
      });
    });
  });
  window.addEventListener('pageshow', function () {
    document.querySelectorAll('form[method="get"] :disabled').forEach(function (field) { field.disabled = false; });
  });
}());

/* Tables of the static site are sorted here; the server sorts by links. */
(function () {
  'use strict';

  function value(row, column) {
    var cell = row.cells[column];
    var text = cell.firstChild ? cell.firstChild.textContent : '';
    text = (text.trim() || cell.textContent.trim()).replace(/,/g, '');
    var number = parseFloat(text);
    return text === '' || text === '\u2013' ? null : isNaN(number) ? text.toLowerCase() : number;
  }

  function sort(body, column, direction) {
    var rows = Array.prototype.slice.call(body.rows);
    rows.sort(function (a, b) {
      var x = value(a, column);
      var y = value(b, column);
      if (x === null || y === null) { return (x === null) - (y === null); }
      return direction * (typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === 'number' ? -1 : 1);
    });
    rows.forEach(function (row) { body.appendChild(row); });
  }

  document.querySelectorAll('table[data-sortable]').forEach(function (table) {
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (cell, column) {
      if (cell.querySelector('a')) { return; }
      var title = cell.firstChild;
      var button = document.createElement('button');
      button.type = 'button';
      button.className = 'plain sort';
      button.textContent = title.textContent.trim();
      cell.replaceChild(button, title);
      button.addEventListener('click', function () {
        var direction = cell.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
        table.querySelectorAll('th[aria-sort]').forEach(function (other) { other.removeAttribute('aria-sort'); });
        cell.setAttribute('aria-sort', direction > 0 ? 'ascending' : 'descending');
        sort(table.tBodies[0], column, direction);
      });
    });
  });
}());
